"""Delivery of several messages: their moves in one go, and what is unusual about one costs no
other."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from mq.disk.files import Files
from mq.errors import QueueNotFound, StoreUnavailable
from mq.spool.rolling import Rolled
from mq.store.publishing.delivering import deliver_each
from mq.store.publishing.filling import Batch
from mq.store.publishing.publish import Draft, Published
from mq.store.store import Store
from tests.support.descriptors import open_descriptors
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in
from tests.support.stores import LONG_SECONDS, ORDERS, batch_of, draft_of, drain, store_on
from tests.support.submits import Outcome, ids_of, publish_each

COUNT = 4


async def ask(store: Store, *drafts: Draft) -> list[Outcome]:
    return await publish_each(store, *((ORDERS, each) for each in drafts))


def drafts_of(count: int) -> list[Draft]:
    return [draft_of(b"%d" % number) for number in range(count)]


class OrderOfCalls(WatchedFiles):
    """Notes renames and closings of files in their order, between `start` and the end."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    def start(self) -> None:
        self.before |= {
            "rename": lambda *_: self.order.append("rename"),
            "close": lambda *_: self.order.append("close"),
        }


@pytest.mark.parametrize("delay_seconds", [0, 1000])
async def test_each_is_moved_and_closed_and_no_look_is_needed(
    root: Path, delay_seconds: float
) -> None:
    files = OrderOfCalls()
    async with store_on(root, files) as store:
        await ask(store, *drafts_of(2))
        await drain(store)
        descriptors = open_descriptors()
        files.start()

        some = [draft_of(b"%d" % number, None, delay_seconds) for number in range(COUNT)]
        ids = ids_of(await ask(store, *some, draft_of(b"now")))

        assert files.order == ["rename", "close"] * (COUNT + 1)
        assert names_in(root / "new") == []
        hidden = ids[:COUNT] if delay_seconds else []
        assert {f"{ORDERS}:{each}" for each in hidden} <= set(names_in(root / "delay"))
        assert open_descriptors() == descriptors
        files.before.clear()
        assert await drain(store) == ids[len(hidden) :]


async def test_one_whose_delay_is_over_before_its_delivery_is_ready(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_on(root) as store:
        work, offset_ns = store._work, 0
        clock_ns = work.clock_ns
        monkeypatch.setattr(work, "clock_ns", lambda: clock_ns() + offset_ns)

        def outlast(*arguments: Any) -> list[bool | BaseException]:
            nonlocal offset_ns
            offset_ns = 1000 * 10**9
            return deliver_each(*arguments)

        monkeypatch.setattr("mq.store.publishing.publish_each.deliver_each", outlast)
        delayed = [draft_of(b"%d" % number, delay_seconds=500) for number in range(COUNT)]
        outcomes = await ask(store, *delayed)

        assert names_in(root / "delay") == []
        assert sorted(names_in(root / "queues" / ORDERS)) == sorted(ids_of(outcomes))
        assert await drain(store) == ids_of(outcomes)


class NameTaken(WatchedFiles):
    """Puts a file where the second message is to go, just before it is moved."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[Path] = []

    def watch(self, folder: Path) -> None:
        renamed = 0

        def take(_source: int, _name: str, _target: int, new_name: str) -> None:
            nonlocal renamed
            renamed += 1
            if renamed == 2:
                self.paths.append(folder / new_name)
                self.paths[0].write_bytes(b"a stranger")

        self.before["rename"] = take


async def test_what_has_the_name_of_one_stays_and_the_others_are_delivered(root: Path) -> None:
    files = NameTaken()
    async with store_on(root, files) as store:
        await ask(store, draft_of(b"first"))
        await drain(store)
        files.watch(root / "queues" / ORDERS)

        outcomes = await ask(store, *drafts_of(COUNT))

        [stranger] = files.paths
        assert len(ids_of(outcomes)) == COUNT
        assert stranger.read_bytes() == b"a stranger"
        assert {stranger.name} <= set(ids_of(outcomes))
        there = set(names_in(root / "queues" / ORDERS))
        assert there == set(ids_of(outcomes))


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
async def test_a_move_that_fails_once_is_made_again(root: Path, code: int) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        await ask(store, *drafts_of(2))
        await drain(store)
        descriptors = open_descriptors()
        files.fail("rename", code=code)

        outcomes = await ask(store, *drafts_of(COUNT))

        assert set(names_in(root / "queues" / ORDERS)) == set(ids_of(outcomes))
        assert names_in(root / "new") == []
        assert open_descriptors() == descriptors
        assert await drain(store) == ids_of(outcomes)


async def test_delayed_ones_go_to_delay(root: Path) -> None:
    async with store_on(root) as store:
        first, second, third = await ask(
            store, draft_of(b"1"), draft_of(b"2", delay_seconds=60), draft_of(b"3")
        )

        assert isinstance(second, Published)
        assert names_in(root / "delay") == [f"{ORDERS}:{second.message_id}"]
        assert await drain(store) == ids_of([first, third])


async def test_a_queue_that_is_deleted_just_before_takes_all_of_them_along(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        await ask(store, *drafts_of(2))
        descriptors = open_descriptors()

        def delete(*_: object) -> None:
            files.before.clear()
            (disk / "queues" / ORDERS).rename(disk / "remove" / f"{ORDERS}:.deleting")

        files.before |= {"sync": delete, "sync_file_system": delete}

        outcomes = await ask(store, *drafts_of(COUNT))

        assert {type(each) for each in outcomes} == {QueueNotFound}
        assert names_in(disk / "new") == []
        assert open_descriptors() <= descriptors


async def test_while_another_process_has_the_queue_to_itself_they_wait(disk: Path) -> None:
    files, others = WatchedFiles(), Files()
    async with store_on(disk, files) as store:
        await ask(store, *drafts_of(2))
        await drain(store)
        held: list[int] = []

        def lock(*_: object) -> None:
            files.before.clear()
            folder = others.open_folder(None, str(disk / "queues" / ORDERS))
            assert others.lock(folder)
            held.append(folder)

        files.before |= {"sync": lock, "sync_file_system": lock}

        asking = asyncio.ensure_future(ask(store, *drafts_of(COUNT)))
        async with asyncio.timeout(20):
            while not held:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert not asking.done()
        others.close(held[0])

        outcomes = await asking
        assert not [each for each in outcomes if isinstance(each, StoreUnavailable)]
        assert await drain(store) == ids_of(outcomes)


@pytest.mark.parametrize("is_listed", [True, False], ids=["listed before", "listed meanwhile"])
async def test_what_was_received_before_a_worker_told_of_its_delivery_is_not_ready_any_more(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, is_listed: bool
) -> None:
    """Events tell of it first, and that it has left its queue."""
    delivered, may_go_on = threading.Event(), threading.Event()
    deliver = Batch.deliver

    def slowly(batch: Batch) -> Rolled:
        rolled = deliver(batch)
        delivered.set()
        may_go_on.wait()
        return rolled

    monkeypatch.setattr(Batch, "deliver", slowly)
    monkeypatch.setattr(Batch, "fits_one_call", False)
    async with store_on(root) as store:
        if is_listed:
            await store.describe_queue(ORDERS)
        entries = batch_of(draft_of(b"one"), draft_of(b"two"))
        publishing = asyncio.create_task(store.publish_batch(ORDERS, entries))
        await asyncio.to_thread(delivered.wait)
        received = await store.receive_many(ORDERS, 1, LONG_SECONDS)
        before = await store.describe_queue(ORDERS)
        may_go_on.set()
        await publishing
        after = await store.describe_queue(ORDERS)

    assert [each.body for each in received] == [b"one"]
    assert (before.ready, after.ready) == (1, 1)
