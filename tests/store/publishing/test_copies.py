"""Publishes for several queues in one turn of the event loop: one set for those that go to the same
queues."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mq.commit.operation import Done, Submitted
from mq.disk.calls import CHAINS_AT_ONCE
from mq.errors import PropertiesUnsupported, QueueNotFound, StoreUnavailable
from mq.names import MessageId, QueueName
from mq.spool.message.trailer import pack_trailer
from mq.store.publishing.publish import Draft, Published
from mq.store.store import Store
from tests.support.faults import SYNCS, PlainFiles, WatchedFiles
from tests.support.messages import names_in
from tests.support.stores import ORDERS, draft_of, drain, store_on
from tests.support.submits import Outcome, answered, ids_of, note_operations

BILLS, KITCHEN = QueueName("bills"), QueueName("kitchen")
QUEUES = (ORDERS, BILLS, KITCHEN)


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[Submitted]:
    return note_operations(monkeypatch, "publish_copies")


async def make_queues(store: Store) -> None:
    for queue in QUEUES:
        await store.create_queue(queue)


async def ask(store: Store, drafts: Sequence[Draft], *also: tuple[QueueName, ...]) -> list[Outcome]:
    """Publish in one turn of the event loop, each to `orders` and to the queues that `also` has for
    it, or has for all."""
    others = also if len(also) == len(drafts) else also * len(drafts)

    def submit(draft: Draft, queues: tuple[QueueName, ...], done: Done) -> None:
        store.submit_publish(ORDERS, draft, done, queues)

    asking = [answered(submit, *each) for each in zip(drafts, others, strict=True)]
    async with asyncio.timeout(20):
        return [*await asyncio.gather(*asking, return_exceptions=True)]


def drafts_of(number: int) -> list[Draft]:
    return [draft_of(b"body %d" % each) for each in range(number)]


async def drain_all(store: Store) -> list[list[MessageId]]:
    return [await drain(store, queue) for queue in QUEUES]


async def test_those_for_the_same_queues_are_one_set(
    root: Path, submitted: list[Submitted]
) -> None:
    async with store_on(root) as store:
        await make_queues(store)
        both, one = (BILLS, KITCHEN), (KITCHEN,)

        outcomes = await ask(store, drafts_of(4), both, one, both, both)

        assert [each.requests for each in submitted] == [3, 1]
        first, second, third, fourth = ids_of(outcomes)
        orders, bills, kitchen = await drain_all(store)
        assert sorted(orders) == sorted(kitchen) == sorted([first, second, third, fourth])
        assert bills == [first, third, fourth]
        assert names_in(root / "new") == []
        assert [store._work.counts.of(queue).published for queue in QUEUES] == [4, 3, 4]
        assert not store._work.undelivered


async def test_a_set_has_what_one_native_call_writes(
    root: Path, submitted: list[Submitted]
) -> None:
    async with store_on(root) as store:
        await make_queues(store)
        outcomes = await ask(store, drafts_of(60), (BILLS, KITCHEN))

        assert [each.requests for each in submitted] == [
            CHAINS_AT_ONCE // 3,
            60 - CHAINS_AT_ONCE // 3,
        ]
        assert await drain_all(store) == [ids_of(outcomes)] * 3


async def test_queues_with_room_for_some_take_some(root: Path) -> None:
    async with store_on(root) as store:
        await make_queues(store)
        await store.change_settings(BILLS, {"max-messages": "3"})

        outcomes = await ask(store, drafts_of(5), (BILLS, KITCHEN))

        assert [type(each) for each in outcomes] == [Published] * 3 + [StoreUnavailable] * 2
        assert await drain_all(store) == [ids_of(outcomes)] * 3


async def test_properties_that_cannot_be_kept_cost_no_other(root: Path) -> None:
    async with store_on(root, PlainFiles()) as store:
        await make_queues(store)
        plain, other = drafts_of(2)
        with_properties = replace(other, trailer=pack_trailer({"x-meta-shop": "north"}))

        outcomes = await ask(store, [plain, with_properties, plain], (BILLS, KITCHEN))

        assert [type(each) for each in outcomes] == [Published, PropertiesUnsupported, Published]
        assert await drain_all(store) == [ids_of(outcomes)] * 3


async def test_without_one_of_the_queues_none_has_any(root: Path) -> None:
    async with store_on(root) as store:
        await make_queues(store)
        outcomes = await ask(store, drafts_of(3), (BILLS, QueueName("gone")))

        assert [type(each) for each in outcomes] == [QueueNotFound] * 3
        assert await drain_all(store) == [[]] * 3
        assert names_in(root / "new") == []


@pytest.mark.parametrize("number", [1, 2])
async def test_after_a_failed_sync_none_has_any(disk: Path, number: int) -> None:
    """The first sync is that of the data, the second that of the seal."""
    files, syncs = WatchedFiles(), itertools.count(1)

    def fail_one(*_: object) -> None:
        if next(syncs) == number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    async with store_on(disk, files) as store:
        await make_queues(store)
        files.before |= dict.fromkeys(SYNCS, fail_one)

        outcomes = await ask(store, drafts_of(3), (BILLS, KITCHEN))

        assert [type(each) for each in outcomes] == [StoreUnavailable] * 3
        assert names_in(disk / "new") == []
        assert [names_in(disk / "queues" / queue) for queue in QUEUES] == [[]] * 3
