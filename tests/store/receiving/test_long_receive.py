"""Receives that wait are tried with others of a round, in their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from mq.names import QueueName
from mq.store.receiving.long_receive import LongPoll
from mq.store.receiving.oldest import Ask
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from tests.support.stores import ORDERS, publish, store_on
from tests.support.submits import note_operations, receive_one
from tests.support.waiting import parked, waiters


async def test_those_who_are_woken_together_share_an_operation(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_on(root) as store:
        tasks = await waiters(store, 30)
        made = note_operations(monkeypatch, "receive_first", "lease_some", "lease_each")

        ids = await asyncio.gather(*(publish(store, b"body") for _ in tasks))
        received = await asyncio.gather(*tasks)

        assert [each.message_id for each in received if each is not None] == sorted(ids)
        assert len(made) <= 5


@pytest.mark.parametrize("way", [receive_one, lambda store, queue: store.receive(queue, None)])
async def test_one_who_is_woken_comes_before_those_who_do_not_wait(
    quick_folder: Path, way: Callable[[Store, QueueName], Coroutine[Any, Any, Received | None]]
) -> None:
    """They ask at every moment: before the message comes, and between the call of the one who waits
    and its receive."""
    async with store_on(quick_folder / "root") as store:
        for loops in range(40):
            (task,) = await waiters(store, 1)
            publishing = asyncio.create_task(publish(store, b"body"))
            passing = []
            for _ in range(loops):
                passing.append(asyncio.create_task(way(store, ORDERS)))
                await asyncio.sleep(0)

            received = await task
            assert received is not None
            assert received.message_id == await publishing
            assert {*await asyncio.gather(*passing)} <= {None}


async def test_nothing_is_taken_for_one_who_leaves_before_its_round(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_on(root) as store:
        await publish(store, b"body")
        made = note_operations(monkeypatch, "receive_first", "lease_some", "lease_each")
        told: list[object] = []

        receiving = store.wait_for([ORDERS], Ask(), LongPoll(60), lambda *each: told.append(each))
        receiving.cancel()

        assert await receive_one(store, ORDERS) is not None
        assert len(made) == 1
        assert told == []
        await parked(store, 0)
