"""Messages that an operation had out of the index, and left where they were: they are there as
before, and those who came meanwhile, found nothing and wait are woken."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mq.config import SMALL_BODY_BYTES
from mq.errors import StoreUnavailable
from mq.names import MessageId
from mq.store.indexing import relist
from mq.store.shared_state import Workspace
from mq.store.store import Store
from tests.support.faults import WatchedFiles
from tests.support.queue_moves import DEAD, MANY, TO_DEAD, with_dead
from tests.support.stores import (
    LONG_SECONDS,
    ORDERS,
    eventually,
    publish,
    publish_as,
    store_on,
)
from tests.support.submits import receive_one
from tests.support.waiting import hold_ready, wait


async def test_a_message_that_a_move_passed_over_wakes_one_who_came_meanwhile(root: Path) -> None:
    async with store_on(root) as store:
        await with_dead(store)
        message_id = MessageId("taken-there")
        for queue, body in ((ORDERS, b"one"), (DEAD, b"another")):
            await publish_as(store, body, queue, message_id)
        await _is_listed_for_good(store)

        moving = asyncio.create_task(store.move(TO_DEAD, MANY))
        receiving = wait(store)

        async with asyncio.timeout(20):
            assert (await moving).taken == [message_id]
            received = await receiving
        assert received is not None
        assert received.message_id == message_id


async def test_a_message_that_a_receive_could_not_open_wakes_one_who_came_meanwhile(
    root: Path,
) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        message_id = await publish(store, b"body")
        await _is_listed_for_good(store)
        files.fail("open_message")

        failing = asyncio.create_task(store.receive(ORDERS, LONG_SECONDS))
        receiving = wait(store)

        async with asyncio.timeout(20):
            with pytest.raises(StoreUnavailable):
                await failing
            received = await receiving
        assert received is not None
        assert received.message_id == message_id


async def _is_listed_for_good(store: Store) -> None:
    """Return once all events are taken in, and a receive that finds nothing would not list the
    queue again."""

    def has_news(work: Workspace) -> bool:
        work.ready.drain()
        ready = work.ready.get(ORDERS)
        return ready is None or work.may_have_changed(ORDERS, ready)

    async def is_quiet() -> bool:
        await store.run(lambda work: relist(work, ORDERS))
        return not await store.call(has_news)

    await eventually(is_quiet)


@pytest.mark.parametrize("size", [10, SMALL_BODY_BYTES + 1])
@pytest.mark.parametrize("limit", [1, 5])
async def test_a_message_is_received_once_a_person_has_mended_the_format(
    root: Path, orders: Path, size: int, limit: int
) -> None:
    """Nothing has changed in its queue since that was listed."""
    async with store_on(root) as store:
        await publish(store, bytes(size))
    os.utime(orders, (0, 0))
    (root / "format").write_text("mq 2\n")
    async with store_on(root) as store:
        (root / "format").write_text("mq 9\n")
        with pytest.raises(StoreUnavailable, match="mq 9"):
            await store.receive_many(ORDERS, limit, LONG_SECONDS)
        (root / "format").write_text("mq 2\n")

        [received] = await store.receive_many(ORDERS, limit, LONG_SECONDS)
        received.close(store._work.files)


@pytest.mark.parametrize("limit", [1, 10])
@pytest.mark.parametrize("length", [4, SMALL_BODY_BYTES + 1])
async def test_a_queue_is_not_called_empty_because_the_folder_for_leased_messages_is_gone(
    root: Path, limit: int, length: int
) -> None:
    """A person removed `delay`. A consumer that is answered with nothing would not be missed."""
    async with store_on(root) as store:
        ids = [await publish(store, bytes(length)) for _ in range(3)]
        (root / "delay").rmdir()

        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="delay is not the folder"):
                await store.receive_many(ORDERS, limit, LONG_SECONDS)

        with pytest.raises(StoreUnavailable, match="delay is not the folder"):
            await store.take(ORDERS, ids[1], LONG_SECONDS)
    async with store_on(root) as store:
        received = await store.receive_many(ORDERS, len(ids), LONG_SECONDS)
        assert [each.message_id for each in received] == ids
        assert {each.receive_count for each in received} == {1}
        for each in received:
            each.close(store._work.files)


async def test_where_a_large_one_is_damaged_and_the_next_is_held_there_is_none(root: Path) -> None:
    async with store_on(root) as store:
        damaged = await publish(store, b"x" * (SMALL_BODY_BYTES + 1))
        message_id = await publish(store, b"body")
        (root / "queues" / ORDERS / damaged).write_bytes(b"y" * (SMALL_BODY_BYTES + 1))

        with hold_ready(root, message_id):
            assert await receive_one(store, ORDERS) is None

        received = await receive_one(store, ORDERS)
        assert received is not None
        assert received.message_id == message_id
