"""Requests that wait in a store for a message, and a message that is held."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mq.disk.files import Files
from mq.names import MessageId, QueueName
from mq.spool.message.held import Held, hold
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


async def got(task: asyncio.Task[Received | None]) -> MessageId:
    """Return the id of the message that a request gets, long before the end of its wait."""
    async with asyncio.timeout(20):
        received = await task
    assert received is not None
    return received.message_id


def hold_ready(root: Path, message_id: MessageId) -> Held:
    """Hold a ready message as another process would."""
    queues = os.open(root / "queues", os.O_RDONLY)
    held = hold(Files(), queues, f"{ORDERS}/{message_id}")
    os.close(queues)
    assert isinstance(held, Held)
    return held
