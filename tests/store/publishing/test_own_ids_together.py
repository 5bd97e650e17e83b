"""Messages that are published together under ids of their producers: those of one turn, and those
of a batch."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mq.commit.operation import Submitted
from mq.config import SECOND_NS
from mq.errors import IdTaken
from mq.names import MessageId, QueueName
from mq.spool.queue.queue_birth import MADE_ATTRIBUTE
from mq.spool.spool import Spool
from mq.store.publishing.filling import Batch
from mq.store.publishing.publish import Draft
from mq.store.publishing.twins import lock_ids
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
from tests.support.submits import ids_of, publish_each


def own(message_id: str, body: bytes = b"body") -> Draft:
    return replace(draft_of(body), message_id=MessageId(message_id))


async def test_they_are_one_operation_and_keep_their_order(
    root: Path, submitted: list[Submitted]
) -> None:
    """Among those without an own id, whatever their ids say."""
    drafts = [own("z"), draft_of(b"new"), own("a"), own("m")]
    async with store_on(root) as store:
        await drain(store)  # It keeps the queue's folder open from now on.
        before = open_descriptors()
        outcomes = await publish_each(store, *((ORDERS, each) for each in drafts))

        assert [each.requests for each in submitted] == [4]
        assert open_descriptors() == before
        ids = ids_of(outcomes)
        assert (ids[0], *ids[2:]) == ("z", "a", "m")
        received = await store.receive_many(ORDERS, 10, LONG_SECONDS)
        assert [each.message_id for each in received] == ids
        assert [await body_of(store, each) for each in received][1] == b"new"
        assert names_in(root / "new") == []


async def test_those_that_are_known_are_answered_as_ever(root: Path) -> None:
    """Published before, removed, and twice in one turn, with the same body and another one."""
    async with store_on(root) as store:
        await publish_each(store, (ORDERS, own("known")), (ORDERS, own("gone")))
        for each in await store.receive_many(ORDERS, 10, LONG_SECONDS):
            if each.message_id == "gone":
                await store.remove(ORDERS, each.message_id)

        drafts = [
            own("known"), own("known", b"other"), own("gone"), own("new"), own("new"),
            own("new", b"other"), own("last"),
        ]  # fmt: skip
        outcomes = await publish_each(store, *((ORDERS, each) for each in drafts))

        told = [getattr(each, "is_duplicate", type(each)) for each in outcomes]
        assert told == [True, IdTaken, True, False, True, IdTaken, False]
        assert await drain(store) == ["new", "last"]


async def test_one_that_another_process_publishes_is_waited_for_alone(
    root: Path, orders: Path, open_spool: Callable[[WatchedFiles], Spool]
) -> None:
    """The others go on without it."""
    async with store_on(root) as store:
        other = open_spool(WatchedFiles())
        lock = lock_ids(other, ORDERS, [MessageId("theirs")])
        assert lock is not None
        theirs = asyncio.create_task(publish_each(store, (ORDERS, own("theirs"))))
        asked = [(ORDERS, own(each)) for each in ("a", "theirs", "b")]
        all_ = asyncio.create_task(publish_each(store, *asked))

        async with asyncio.timeout(20):
            while names_in(orders) != ["a", "b"]:
                await asyncio.sleep(0.01)
        assert [each.done() for each in (theirs, all_)] == [False, False]
        os.close(lock)

        [first] = await theirs
        outcomes = await all_
        assert {getattr(each, "is_duplicate", each) for each in (first, outcomes[1])} == {
            True, False,
        }  # fmt: skip
        assert len(await drain(store)) == 3


@pytest.mark.parametrize("body", [b"body", b"other"])
async def test_one_that_comes_after_the_look_is_not_published_twice(
    root: Path, orders: Path, body: bytes
) -> None:
    """A person moves a message into the queue, just before that of the producer gets there."""
    files = WatchedFiles()
    async with store_on(root, files) as store:
        await publish_each(store, (ORDERS, own("known", body)), (ORDERS, own("b")))
        aside = root / "aside"
        (orders / "known").rename(aside)

        def put_back(*_: object) -> None:
            if aside.exists():
                aside.rename(orders / "known")

        files.before["rename"] = put_back
        outcomes = await publish_each(store, (ORDERS, own("known")), (ORDERS, own("c")))

        told = [getattr(each, "is_duplicate", type(each)) for each in outcomes]
        assert told == [True if body == b"body" else IdTaken, False]
        assert names_in(root / "new") == []
        assert sorted(await drain(store)) == ["b", "c", "known"]


async def test_what_cannot_be_delivered_is_left_to_a_sweep_with_its_lock_gone(
    root: Path, orders: Path
) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        files.fail("rename", times=2)
        outcomes = await publish_each(store, (ORDERS, own("a")), (ORDERS, own("b")))
        files.before.clear()

        assert ids_of(outcomes) == ["a", "b"]
        async with asyncio.timeout(20):
            while names_in(orders) != ["a", "b"]:
                await asyncio.sleep(0.01)
        again = await publish_each(store, (ORDERS, own("a")), (ORDERS, own("b")))
        assert [getattr(each, "is_duplicate", each) for each in again] == [True, True]


async def test_ids_of_several_queues_do_not_concern_each_other(root: Path) -> None:
    bills = QueueName("bills")
    async with store_on(root) as store:
        await store.create_queue(bills)
        asked = [(ORDERS, own("a")), (bills, own("a", b"other")), (ORDERS, own("b"))]
        outcomes = await publish_each(store, *asked)

        assert ids_of(outcomes) == ["a", "a", "b"]
        assert await drain(store) == ["a", "b"]


async def test_they_are_younger_than_their_queue(root: Path, orders: Path) -> None:
    """It was made by the clock of another machine, which is ahead of this one."""
    made_ns = time.time_ns() + 3600 * SECOND_NS
    async with store_on(root) as store:
        os.setxattr(orders, MADE_ATTRIBUTE, b"%d" % made_ns)
        await publish_each(store, (ORDERS, own("a")), (ORDERS, own("b")))

        received = await store.receive_many(ORDERS, 10, LONG_SECONDS)
        assert [each.message_id for each in received] == ["a", "b"]
        assert min([each.published_ns for each in received]) > made_ns


async def test_with_copies_for_other_queues_each_is_published_by_itself(root: Path) -> None:
    bills = QueueName("bills")
    async with store_on(root) as store:
        await store.create_queue(bills)
        await store.change_settings(ORDERS, {"also": "bills"})
        await publish_each(store, (ORDERS, own("known")))
        drafts = [own("known"), own("known", b"other"), own("a"), own("a"), draft_of(b"b")]
        outcomes = await publish_each(store, *((ORDERS, each) for each in drafts))

        told = [getattr(each, "is_duplicate", type(each)) for each in outcomes]
        assert told[:2] == [True, IdTaken]
        assert {*told[2:4]} == {False, True}
        assert told[4] is False
        ids = ["known", "a", *ids_of(outcomes[4:])]
        assert [sorted(await drain(store, each)) for each in (ORDERS, bills)] == [sorted(ids)] * 2


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each batch had that a worker filled."""
    sizes: list[int] = []
    fill = Batch.fill

    def note(batch: Batch) -> bool:
        sizes.append(sum(len(part.placed) for part in batch.parts))
        return fill(batch)

    monkeypatch.setattr(Batch, "fill", note)
    return sizes


async def test_a_batch_of_new_ones_needs_no_worker(root: Path, filled: list[int]) -> None:
    drafts = [own("z"), draft_of(b"new"), own("a")]
    async with store_on(root) as store:
        await drain(store)  # It keeps the queue's folder open from now on.
        before = open_descriptors()
        published = await store.publish_batch(ORDERS, batch_of(*drafts))

        assert filled == []
        assert open_descriptors() == before
        assert [each.is_duplicate for each in published] == [False] * 3
        assert await drain(store) == [each.message_id for each in published]


@pytest.mark.parametrize("more", [own("known"), own("new")])
async def test_a_worker_looks_for_those_that_are_known_or_come_twice(
    root: Path, filled: list[int], more: Draft
) -> None:
    async with store_on(root) as store:
        await store.publish(ORDERS, own("known"))
        published = await store.publish_batch(ORDERS, batch_of(own("new"), own("last"), more))

        assert filled == [3]
        assert [each.is_duplicate for each in published] == [False, False, True]
        assert await drain(store) == ["known", "new", "last"]


async def test_a_batch_waits_for_another_publisher_of_one_of_its_ids(
    root: Path, orders: Path, open_spool: Callable[[WatchedFiles], Spool], filled: list[int]
) -> None:
    async with store_on(root) as store:
        lock = lock_ids(open_spool(WatchedFiles()), ORDERS, [MessageId("theirs")])
        assert lock is not None
        entries = batch_of(own("a"), own("theirs"))
        publishing = asyncio.create_task(store.publish_batch(ORDERS, entries))
        async with asyncio.timeout(20):
            while not filled:
                await asyncio.sleep(0.01)
        assert names_in(orders) == []
        os.close(lock)

        assert [each.is_duplicate for each in await publishing] == [False, False]
        assert await drain(store) == ["a", "theirs"]
