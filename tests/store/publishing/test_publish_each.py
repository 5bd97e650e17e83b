"""Publishes of one turn of the event loop: one operation for all, and what is wrong with one costs
no other."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from mq.commit.operation import Submitted
from mq.errors import QueueNotFound, StoreUnavailable
from mq.names import QueueName
from mq.spool.message.trailer import pack_trailer
from mq.store.joint import MAX_TOGETHER
from mq.store.publishing.publish import Draft, Published
from mq.store.store import Store
from tests.support.descriptors import open_descriptors
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in
from tests.support.stores import (
    LONG_SECONDS,
    ORDERS,
    batch_of,
    body_of,
    draft_of,
    drain,
    store_on,
)
from tests.support.submits import Outcome, ids_of, publish_each


async def ask(store: Store, *drafts: Draft, queue: QueueName = ORDERS) -> list[Outcome]:
    """Return what each publish of one turn returns or raises."""
    return await publish_each(store, *((queue, each) for each in drafts))


def drafts_of(count: int) -> list[Draft]:
    return [draft_of(b"%d" % number) for number in range(count)]


async def test_they_are_one_operation_and_keep_their_order(
    root: Path, submitted: list[Submitted]
) -> None:
    async with store_on(root) as store:
        outcomes = await ask(store, *drafts_of(9))

        assert [each.requests for each in submitted] == [9]
        assert names_in(root / "new") == []
        received = await store.receive_many(ORDERS, 10, LONG_SECONDS)
        assert [each.message_id for each in received] == ids_of(outcomes)
        assert [await body_of(store, each) for each in received] == [b"%d" % n for n in range(9)]


async def test_many_are_several_operations(root: Path, submitted: list[Submitted]) -> None:
    async with store_on(root) as store:
        outcomes = await ask(store, *drafts_of(MAX_TOGETHER + 1))

        assert [each.requests for each in submitted] == [MAX_TOGETHER, 1]
        assert await drain(store) == ids_of(outcomes)


async def test_beside_other_servers_they_are_one_operation_too(
    disk: Path, submitted: list[Submitted]
) -> None:
    async with store_on(disk, peers=1) as store:
        outcomes = await ask(store, *drafts_of(3))

        assert [each.requests for each in submitted] == [3]
        assert set(await drain(store)) == set(ids_of(outcomes))


async def test_they_share_a_sync(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        await ask(store, *drafts_of(3))
        before = files.syncs()

        assert len(ids_of(await ask(store, *drafts_of(20)))) == 20

        assert files.syncs() - before <= 1


@pytest.mark.parametrize("call", ["open_unnamed", "write", "set_attribute", "lock", "link"])
async def test_a_call_that_fails_for_one_costs_no_other(root: Path, call: str) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        await ask(store, *drafts_of(2))
        await drain(store)
        descriptors = open_descriptors()
        files.fail(call, code=errno.ENOSPC)

        outcomes = await ask(store, *drafts_of(4))

        assert isinstance(outcomes[0], StoreUnavailable)
        assert len(ids_of(outcomes)) == 3
        assert await drain(store) == ids_of(outcomes)
        assert names_in(root / "new") == []
        assert open_descriptors() == descriptors


async def test_a_failed_sync_fails_all_and_leaves_nothing(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        await ask(store, *drafts_of(2))
        await drain(store)
        files.fail("sync", "sync_file_system")

        outcomes = await ask(store, *drafts_of(5))

        assert {type(each) for each in outcomes} == {StoreUnavailable}
        assert names_in(disk / "new") == []
        files.before.clear()
        async with asyncio.timeout(20):
            while not ids_of(again := await ask(store, *drafts_of(2))):
                await asyncio.sleep(0.01)
        assert await drain(store) == ids_of(again)


async def test_what_cannot_be_delivered_is_left_to_the_sweep(root: Path) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        files.fail("rename")

        outcomes = await ask(store, *drafts_of(3))

        assert len(ids_of(outcomes)) == 3
        async with asyncio.timeout(20):
            while len(names_in(root / "queues" / ORDERS)) < 3:
                await asyncio.sleep(0.01)
        assert sorted(await drain(store)) == sorted(ids_of(outcomes))


async def test_a_queue_with_room_for_some_takes_some(root: Path) -> None:
    async with store_on(root, max_queue_messages=3) as store:
        outcomes = await ask(store, *drafts_of(5))

        assert [type(each) for each in outcomes] == [Published] * 3 + [StoreUnavailable] * 2
        assert await drain(store) == ids_of(outcomes)


async def test_without_the_queue_all_are_told(root: Path) -> None:
    async with store_on(root) as store:
        outcomes = await ask(store, *drafts_of(3), queue=QueueName("gone"))

        assert {type(each) for each in outcomes} == {QueueNotFound}


async def test_some_may_be_delayed_and_some_have_properties(root: Path) -> None:
    later, marked = draft_of(b"later", delay_seconds=1000), draft_of(b"marked")
    marked.trailer = pack_trailer({"x-meta-colour": "red"})
    async with store_on(root) as store:
        for _ in range(2):  # The first ones raise the format of the root.
            outcomes = await ask(store, draft_of(b"now"), later, marked)

            now, delayed, with_properties = ids_of(outcomes)
            first, second = await store.receive_many(ORDERS, 5, LONG_SECONDS)
            assert (first.message_id, second.message_id) == (now, with_properties)
            assert dict(second.properties) == {"x-meta-colour": "red"}
            assert f"{ORDERS}:{delayed}" in names_in(root / "delay")


async def test_nothing_is_remembered_of_a_queue_that_is_deleted(root: Path) -> None:
    """Clients may make one for each of their answers."""
    async with store_on(root) as store:
        for number in range(3):
            queue = QueueName(f"answers-{number}")
            await store.create_queue(queue)
            await ask(store, *drafts_of(number + 1), queue=queue)
            await store.publish_batch(queue, batch_of(*drafts_of(2)))
            await store.delete_queue(queue)
            assert [type(each) for each in await ask(store, draft_of(b""), queue=queue)] == [
                QueueNotFound
            ]

        assert not store._work.undelivered
        assert store._work.ready.names() == []
