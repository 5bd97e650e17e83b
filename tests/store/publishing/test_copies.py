"""Publishes for several queues in one turn of the event loop: one set for those that go to the same
queues."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mq.commit.operation import Done, Submitted
from mq.config import CHUNK_BYTES
from mq.disk.calls import CHAINS_AT_ONCE
from mq.errors import PropertiesUnsupported, QueueNotFound, StoreUnavailable
from mq.names import MessageId, QueueName
from mq.spool.message.trailer import pack_trailer
from mq.store.publishing.publish import Draft, Published
from mq.store.store import Store
from tests.support.descriptors import open_descriptors
from tests.support.faults import SYNCS, PlainFiles, WatchedFiles
from tests.support.messages import names_in
from tests.support.stores import ORDERS, draft_of, drain, store_on
from tests.support.submits import Outcome, answered, ids_of, note_operations, publish_each

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


async def test_those_for_a_queue_whose_settings_have_copies_are_one_set(
    root: Path, submitted: list[Submitted]
) -> None:
    other = QueueName("other")
    async with store_on(root) as store:
        await make_queues(store)
        await store.create_queue(other)
        await store.change_settings(ORDERS, {"also": "bills,kitchen"})

        asked = [*zip([ORDERS, other, ORDERS, other, ORDERS], drafts_of(5), strict=True)]
        outcomes = await publish_each(store, *asked)

        assert [each.requests for each in submitted] == [3]
        ids = ids_of(outcomes)
        assert await drain_all(store) == [ids[::2]] * 3
        assert await drain(store, other) == ids[1::2]
        assert not store._work.undelivered


async def test_what_copies_have_no_room_for_costs_no_other(root: Path) -> None:
    async with store_on(root) as store:
        await make_queues(store)
        await store.change_settings(ORDERS, {"also": "bills"})
        await store.change_settings(BILLS, {"max-messages": "2"})

        asked = [*zip([ORDERS, KITCHEN, ORDERS, ORDERS], drafts_of(4), strict=True)]
        outcomes = await publish_each(store, *asked)

        assert [type(each) for each in outcomes[:3]] == [Published] * 3
        assert isinstance(outcomes[3], StoreUnavailable)
        first, tea, third = ids_of(outcomes)
        assert await drain_all(store) == [[first, third], [first, third], [tea]]


@pytest.mark.parametrize("number", [1, 5])
async def test_a_queue_for_copies_that_is_deleted_meanwhile_costs_nothing(
    disk: Path, number: int
) -> None:
    """It goes while the data is synced: after it was looked for, and before the seal."""
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        await make_queues(store)
        await store.change_settings(ORDERS, {"also": "bills,kitchen"})

        def delete(*_: object) -> None:
            files.before.clear()
            (disk / "queues" / BILLS).rename(disk / "remove" / f"{BILLS}:.deleting")

        files.before |= dict.fromkeys(SYNCS, delete)
        drafts = drafts_of(number)
        outcomes = await publish_each(store, *[(ORDERS, draft) for draft in drafts])

        ids = ids_of(outcomes)
        assert len(ids) == number
        assert await drain(store, ORDERS) == await drain(store, KITCHEN) == ids
        assert names_in(disk / "new") == []
        assert not store._work.undelivered


@pytest.mark.parametrize("number", [1, 3])
async def test_what_only_has_the_name_of_a_queue_for_copies_costs_nothing(
    root: Path, number: int
) -> None:
    async with store_on(root) as store:
        await make_queues(store)
        await store.change_settings(ORDERS, {"also": "bills,kitchen"})
        (root / "queues" / BILLS).rename(root / "elsewhere")
        (root / "queues" / BILLS).touch()

        ids = ids_of(await publish_each(store, *[(ORDERS, draft) for draft in drafts_of(number)]))

        assert len(ids) == number
        assert await drain(store, ORDERS) == await drain(store, KITCHEN) == ids


async def test_a_large_body_is_copied_whole(root: Path) -> None:
    body = random.Random(2).randbytes(2 * CHUNK_BYTES + 1)
    async with store_on(root) as store:
        await make_queues(store)
        await store.change_settings(ORDERS, {"also": "bills,kitchen"})
        await store.publish(ORDERS, draft_of(b"small"))  # It opens the queues.
        await drain_all(store)
        descriptors = open_descriptors()

        async with store.open_upload() as upload:
            draft = await upload.finish(body, "text/plain", {"x-meta-shop": "north"})
            published = await store.publish(ORDERS, draft)

        for queue in QUEUES:
            path = root / "queues" / queue / published.message_id
            assert path.read_bytes().startswith(body)
            [peeked] = await store.peek(queue, 1)
            assert peeked.properties == {"x-meta-shop": "north"}
            peeked.close(store._work.files)
        assert open_descriptors() <= descriptors


async def test_a_fault_of_one_queue_for_copies_costs_no_other(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_on(root) as store:
        await make_queues(store)
        await store.change_settings(ORDERS, {"also": "bills"})
        queues = store._work.spool.queues
        look = queues.is_there

        def fail(queue: str) -> bool:
            if queue == BILLS:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return look(queue)

        monkeypatch.setattr(queues, "is_there", fail)
        asked = [*zip([ORDERS, KITCHEN, ORDERS], drafts_of(3), strict=True)]
        outcomes = await publish_each(store, *asked)

        refused, published, also_refused = outcomes
        assert isinstance(published, Published)
        assert isinstance(refused, StoreUnavailable)
        assert isinstance(also_refused, StoreUnavailable)
        assert await drain_all(store) == [[], [], [published.message_id]]


async def test_after_a_failed_sync_each_is_told_once(disk: Path) -> None:
    """Those with copies are told by themselves, the others by the operation for all."""
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        await make_queues(store)
        await store.change_settings(ORDERS, {"also": "bills"})
        for each in SYNCS:
            files.fail(each, code=errno.EIO)
        told: list[tuple[int, object]] = []

        for number, queue in enumerate((ORDERS, KITCHEN, ORDERS, KITCHEN)):

            def done(result: object, error: BaseException | None, number: int = number) -> None:
                told.append((number, result or error))

            store.submit_publish(queue, draft_of(b"body"), done)
        async with asyncio.timeout(20):
            while len(told) < 4:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)

        assert sorted(number for number, _ in told) == [0, 1, 2, 3]
        assert any(isinstance(each, StoreUnavailable) for _, each in told)
