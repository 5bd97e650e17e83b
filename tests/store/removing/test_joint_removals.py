"""Removals of several requests in one turn of the event loop: one operation for all, and what is
wrong with one costs no other."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from mq.commit.operation import Submitted
from mq.disk.files import Files
from mq.errors import LeaseMismatch, MessageNotFound, QueueNotFound, StoreUnavailable
from mq.names import MessageId, QueueName
from mq.store import patience
from mq.store.joint import MAX_TOGETHER
from mq.store.receiving.received_message import Received
from mq.store.removing.remove_many import Removal
from mq.store.store import Store
from tests.support.descriptors import open_descriptors
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in
from tests.support.stores import LONG_SECONDS, ORDERS, draft_of, drain, publish, store_on
from tests.support.submits import answered, note_operations


async def remove(store: Store, *asked: Removal) -> list[BaseException | None]:
    """Return what is wrong with each of the removals of one turn."""
    removing = (answered(store.submit_remove, *each) for each in asked)
    async with asyncio.timeout(20):
        return [*await asyncio.gather(*removing, return_exceptions=True)]


async def received(store: Store, count: int) -> list[Received]:
    for number in range(count):
        await store.publish(ORDERS, draft_of(b"%d" % number))
    return await store.receive_many(ORDERS, count, LONG_SECONDS)


def leased(each: Received) -> Removal:
    return each.queue, each.message_id, frozenset({each.lease})


def bare(each: Received) -> Removal:
    return each.queue, each.message_id, None


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[Submitted]:
    """The operations of removals."""
    return note_operations(monkeypatch, "remove", "remove_leased", "remove_each")


@pytest.mark.parametrize("others", [0, 1])
async def test_who_removes_the_same_message_keeps_its_lock_from_nobody(
    root: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    monkeypatch.setattr(patience, "BUSY_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(patience, "LEAST_TRIES", 1)
    async with store_on(root) as store:
        same, *rest = await received(store, 1 + others)
        wrong = same.queue, same.message_id, frozenset({same.lease + 1})

        found = await remove(store, *([leased(same)] * 9), *map(leased, rest), *([wrong] * 3))

        assert found[: 9 + others] == [None] * (9 + others)
        assert [type(each) for each in found[9 + others :]] == [LeaseMismatch] * 3
        assert store._work.counts.of(ORDERS).removed == 1 + others


async def test_they_are_one_operation(root: Path, submitted: list[Submitted]) -> None:
    async with store_on(root) as store:
        messages = await received(store, 9)

        assert await remove(store, *map(leased, messages)) == [None] * 9

        assert [each.requests for each in submitted] == [9]
        assert len(names_in(root / "remove")) == 9
        assert names_in(root / "delay") == []


async def test_those_with_a_lease_and_those_without_may_be_mixed(
    root: Path, submitted: list[Submitted]
) -> None:
    async with store_on(root) as store:
        a, b, c, d = await received(store, 4)
        wrong = ORDERS, MessageId("wrong"), frozenset({1})

        outcomes = await remove(store, bare(a), leased(b), wrong, (ORDERS, MessageId("none"), None))

        assert [type(each) for each in outcomes] == [
            type(None),
            type(None),
            MessageNotFound,
            MessageNotFound,
        ]
        assert [each.requests for each in submitted] == [4]
        assert sorted(names_in(root / "remove")) == sorted(
            f"{ORDERS}:{each.message_id}" for each in (a, b)
        )
        assert await remove(store, leased(c), bare(d)) == [None, None]


async def test_each_counts_under_its_own_lease_alone(root: Path) -> None:
    """The lease of another message in the same round does not count."""
    async with store_on(root) as store:
        a, b, c = await received(store, 3)
        swapped = a._replace(lease=b.lease), b._replace(lease=a.lease)

        first, second, third = await remove(store, *map(leased, swapped), leased(c))

        assert isinstance(first, LeaseMismatch)
        assert isinstance(second, LeaseMismatch)
        assert third is None
        assert names_in(root / "remove") == [f"{ORDERS}:{c.message_id}"]
        assert await remove(store, leased(a), leased(b)) == [None, None]


async def test_many_are_several_operations(root: Path, submitted: list[Submitted]) -> None:
    async with store_on(root) as store:
        messages = await received(store, MAX_TOGETHER + 1)

        assert await remove(store, *map(leased, messages)) == [None] * len(messages)

        assert [each.requests for each in submitted] == [MAX_TOGETHER, 1]


async def test_one_that_is_asked_for_twice_is_removed_for_both(root: Path) -> None:
    async with store_on(root) as store:
        a, b = await received(store, 2)

        assert await remove(store, leased(a), leased(a), leased(b), bare(b)) == [None] * 4


async def test_one_that_another_process_holds_keeps_no_other_waiting(root: Path) -> None:
    others = Files()
    async with store_on(root) as store:
        held, *free = await received(store, 4)
        fd = others.open_message(
            others.open_folder(None, str(root / "delay")), f"{ORDERS}:{held.message_id}"
        )
        assert others.lock(fd)
        told: list[MessageId] = []

        async def remove_and_note(each: Received) -> None:
            try:
                await answered(store.submit_remove, *leased(each))
            finally:
                told.append(each.message_id)

        first, *rest = await asyncio.gather(
            *map(remove_and_note, (held, *free)), return_exceptions=True
        )

        assert isinstance(first, StoreUnavailable)
        assert rest == [None] * 3
        assert told == [each.message_id for each in (*free, held)]
        others.close(fd)
        assert await remove(store, leased(held)) == [None]


async def test_they_share_a_sync(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        messages = await received(store, 20)
        before = files.syncs()

        assert await remove(store, *map(leased, messages)) == [None] * 20

        assert files.syncs() - before <= 2


async def test_a_failed_sync_fails_all_and_each_may_be_tried_again(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        messages = await received(store, 5)
        files.fail("sync", "sync_file_system")

        outcomes = await remove(store, *map(leased, messages))

        assert {type(each) for each in outcomes} == {StoreUnavailable}
        files.before.clear()
        async with asyncio.timeout(20):
            while any(await remove(store, *map(leased, messages))):
                await asyncio.sleep(0.01)
        assert await drain(store) == []


@pytest.mark.parametrize("call", ["open_message", "rename"])
async def test_a_call_that_fails_for_one_costs_no_other(root: Path, call: str) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        messages = await received(store, 4)
        descriptors = open_descriptors()
        files.fail(call, code=errno.EIO)

        first, *others = await remove(store, *map(leased, messages))

        assert isinstance(first, StoreUnavailable)
        assert others == [None] * 3
        assert open_descriptors() == descriptors
        assert await remove(store, leased(messages[0])) == [None]


async def test_without_its_queue_each_is_told(root: Path) -> None:
    async with store_on(root) as store:
        nowhere = QueueName("nowhere")
        bare: Removal = (nowhere, MessageId("a"), None)
        leased: Removal = (nowhere, MessageId("b"), frozenset({1}))

        for outcomes in (await remove(store, bare, leased), await remove(store, bare)):
            assert {type(each) for each in outcomes} == {QueueNotFound}


async def test_they_count_as_removed(root: Path) -> None:
    async with store_on(root) as store:
        messages = await received(store, 3)
        ready = await publish(store, b"ready")

        await remove(store, *map(leased, messages), (ORDERS, ready, None))
        await remove(store, *map(leased, messages))

        assert await drain(store) == []
        assert store.health.counts.of(ORDERS).removed == 4


async def test_those_of_several_queues_are_one_operation(
    root: Path, submitted: list[Submitted]
) -> None:
    teas, missing = QueueName("teas"), QueueName("missing")
    async with store_on(root) as store:
        await store.create_queue(teas)
        order = await received(store, 1)
        await publish(store, b"tea", teas)
        tea = await store.receive_many(teas, 1, LONG_SECONDS)
        ready = await publish(store, b"more", teas)

        outcomes = await remove(
            store,
            *map(leased, order + tea),
            (missing, ready, None),
            (ORDERS, tea[0].message_id, None),
            (teas, ready, None),
        )

        assert [type(each) for each in outcomes] == [
            type(None), type(None), QueueNotFound, MessageNotFound, type(None)
        ]  # fmt: skip
        assert [each.requests for each in submitted] == [5]
        counts = store.health.counts
        assert [counts.of(queue).removed for queue in (ORDERS, teas)] == [1, 2]
        assert sorted(names_in(root / "remove")) == sorted(
            [*(f"{each.queue}:{each.message_id}" for each in order + tea), f"{teas}:{ready}"]
        )


async def test_a_queue_that_the_disk_cannot_look_at_costs_no_other(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teas, look = QueueName("teas"), Files.status_of

    def fail(files: Files, folder_fd: int, name: str) -> os.stat_result:
        if name == teas:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return look(files, folder_fd, name)

    async with store_on(root) as store:
        await store.create_queue(teas)
        [order] = await received(store, 1)
        await publish(store, b"tea", teas)
        [tea] = await store.receive_many(teas, 1, LONG_SECONDS)

        with monkeypatch.context() as patched:
            patched.setattr(Files, "status_of", fail)
            outcomes = await remove(store, leased(tea), leased(order))

        assert [type(each) for each in outcomes] == [StoreUnavailable, type(None)]
        assert await remove(store, leased(tea), leased(order)) == [None, None]


async def test_a_queue_that_another_process_has_to_itself_keeps_no_other_waiting(
    root: Path,
) -> None:
    others, teas = Files(), QueueName("teas")
    async with store_on(root) as store:
        await store.create_queue(teas)
        orders = await received(store, 2)
        await publish(store, b"tea", teas)
        [tea] = await store.receive_many(teas, 1, LONG_SECONDS)
        folder = others.open_folder(None, str(root / "queues" / ORDERS))
        assert others.lock(folder)

        removals = [asyncio.create_task(remove(store, leased(each))) for each in (*orders, tea)]
        async with asyncio.timeout(20):
            assert await removals[2] == [None]
            assert not removals[0].done()
            others.close(folder)
            assert await removals[0] == await removals[1] == [None]
