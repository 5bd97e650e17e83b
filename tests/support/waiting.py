"""Requests that wait in a store for a message."""

from __future__ import annotations

import asyncio

from mq.names import QueueName
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from tests.support.stores import LONG_SECONDS, ORDERS

WAIT_SECONDS = 60.0


def wait(store: Store, queue: QueueName = ORDERS) -> asyncio.Task[Received | None]:
    return asyncio.create_task(store.receive(queue, LONG_SECONDS, WAIT_SECONDS))


async def parked(store: Store, count: int, queue: QueueName = ORDERS) -> None:
    """Return once `count` requests wait and do nothing else."""
    lines = store._receives.waiting._lines
    async with asyncio.timeout(20):
        while (len(lines[queue].parked) if queue in lines else 0) != count:
            await asyncio.sleep(0.001)


async def waiters(store: Store, count: int) -> list[asyncio.Task[Received | None]]:
    started = [wait(store) for _ in range(count)]
    await parked(store, count)
    return started
