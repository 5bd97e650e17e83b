"""Long polls beside messages that other processes hold: one of them always looks for these."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mq.commit.operation import Operation, Pause
from mq.spool.message.held import Lost
from mq.store.receiving.long_receive import LongPoll
from mq.store.receiving.receive import ReceivedOrBusy
from tests.support.stores import LONG_SECONDS, ORDERS, eventually, publish, store_on
from tests.support.waiting import WAIT_SECONDS, got, hold_ready, parked, wait


async def test_a_message_that_somebody_holds_is_taken_when_it_is_free(root: Path) -> None:
    async with store_on(root) as store:
        message_id = await publish(store, b"body")
        held = hold_ready(root, message_id)
        task = wait(store)
        await parked(store, 1)

        held.close()

        received = await task
        assert received is not None
        assert received.message_id == message_id


@pytest.mark.parametrize("leaves", ["in time", "at once"])
async def test_who_leaves_while_somebody_holds_a_message_leaves_it_to_the_next(
    root: Path, leaves: str
) -> None:
    async with store_on(root) as store:
        message_id = await publish(store, b"body")
        held = hold_ready(root, message_id)
        poll = LongPoll(WAIT_SECONDS)
        first = asyncio.create_task(store.receive_many(ORDERS, 1, LONG_SECONDS, poll))
        await parked(store, 1)
        second = wait(store)
        await parked(store, 2)

        if leaves == "at once":
            first.cancel()
        poll.deadline = 0.0
        await asyncio.wait({first})
        held.close()

        assert await got(second) == message_id


async def test_who_gets_another_message_leaves_one_that_somebody_holds_to_the_next(
    root: Path,
) -> None:
    async with store_on(root) as store:
        message_id = await publish(store, b"held")
        held = hold_ready(root, message_id)
        first = wait(store)
        await parked(store, 1)
        second = wait(store)
        await parked(store, 2)

        await publish(store, b"free")
        await asyncio.wait({first})
        held.close()

        assert await got(second) == message_id


async def test_who_leaves_while_it_looks_leaves_what_somebody_holds_to_the_next(
    root: Path,
) -> None:
    """While the first looked, the second had found the queue empty."""
    looks = {"first": 0, "second": 0}

    def find_it_held(*_: object) -> Operation[ReceivedOrBusy]:
        looks["first"] += 1
        yield Pause(0.3)
        return Lost.BUSY

    def find_nothing(*_: object) -> Operation[ReceivedOrBusy]:
        looks["second"] += 1
        yield from ()
        return []

    async def first_looks() -> bool:
        return looks["first"] == 1

    async def second_looks_again() -> bool:
        return looks["second"] == 2

    async with store_on(root) as store:
        second = asyncio.create_task(
            store.receive_many(ORDERS, 1, None, WAIT_SECONDS, by=find_nothing)
        )
        await parked(store, 1)
        first = asyncio.create_task(
            store.receive_many(ORDERS, 1, None, WAIT_SECONDS, by=find_it_held)
        )
        await eventually(first_looks)

        first.cancel()

        await eventually(second_looks_again)
        second.cancel()
