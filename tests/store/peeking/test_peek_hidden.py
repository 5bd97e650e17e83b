"""Looks at leased and delayed messages: each that stays is seen once, while others are moved, and
no page lists `delay`."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mq.disk.calls import Chain, Outcome, run
from mq.disk.files import Files
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder, State
from mq.names import MessageId, file_name
from mq.spool.queue import hidden
from mq.spool.spool import Spool
from mq.store.index import hidden_index
from mq.store.peeking import peek_hidden
from mq.store.store import Store
from tests.support.counted import counted_calls
from tests.support.descriptors import open_descriptors
from tests.support.faults import raising
from tests.support.messages import foreign_id, stamp, write_message
from tests.support.stores import (
    LONG_SECONDS,
    ORDERS,
    eventually,
    publish,
    publish_as,
    receive,
    store_on,
)

LEASED, DELAYED = State.LEASED, State.DELAYED


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each folder was listed."""
    return counted_calls(monkeypatch, Spool, "names")


async def delayed(store: Store, message_id: str | None = None) -> MessageId:
    own = None if message_id is None else MessageId(message_id)
    return (await publish_as(store, b"body", ORDERS, own, LONG_SECONDS)).message_id


async def page(
    store: Store, state: State, limit: int = 1000, after: MessageId | None = None
) -> list[MessageId]:
    peeked = await store.peek(ORDERS, limit, after, state=state)
    for each in peeked:
        assert (each.state, each.body) == (state, b"body")
    return [each.message_id for each in peeked]


async def all_pages(store: Store, state: State, limit: int) -> list[MessageId]:
    shown: list[MessageId] = []
    while found := await page(store, state, limit, shown[-1] if shown else None):
        shown += found
    return shown


async def test_pages_are_read_with_one_listing(root: Path, listings: Counter[str]) -> None:
    async with store_on(root) as store:
        ids = [await delayed(store, f"own-{99 - at}" if at % 3 else None) for at in range(60)]
        await publish(store, b"body")
        taken = await receive(store)
        await page(store, LEASED)
        before = listings[Folder.DELAY]

        assert await all_pages(store, DELAYED, 7) == ids
        assert await all_pages(store, LEASED, 1) == [taken.message_id]
        late = [await delayed(store), await delayed(store, "a")]
        await store.put_back(taken)
        await store.remove(ORDERS, ids[0])
        assert await all_pages(store, DELAYED, 13) == ids[1:] + late
        assert await page(store, LEASED) == []

        assert listings[Folder.DELAY] == before


async def test_each_queue_has_a_listing_of_its_own(root: Path) -> None:
    async with store_on(root) as store:
        first = await delayed(store)
        assert await page(store, DELAYED) == [first]
        (root / "queues" / "order").mkdir()
        write_message(root / "delay" / f"order:{foreign_id()}", due_in_seconds=LONG_SECONDS)

        assert await page(store, DELAYED) == [first]


async def test_a_queue_with_more_than_one_listing_remembers_is_seen_to_the_end(
    root: Path, monkeypatch: pytest.MonkeyPatch, listings: Counter[str]
) -> None:
    monkeypatch.setattr(hidden_index, "MAX_KEYS", 10)
    monkeypatch.setattr(hidden_index, "_MAX_IN_ALL", 20)
    async with store_on(root) as store:
        ids = [await delayed(store, f"own-{at}" if at % 2 else None) for at in range(35)]

        for limit in (1, 3, 10, 100):
            before = listings[Folder.DELAY]
            assert await all_pages(store, DELAYED, limit) == ids
            assert listings[Folder.DELAY] - before <= 4
        held = sum(map(len, store._work.hidden._windows))
        assert held <= 20


async def test_what_comes_in_never_takes_more_memory_than_there_is(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_on(root) as store:
        await delayed(store)
        await page(store, DELAYED)
        monkeypatch.setattr(hidden_index, "_MAX_IN_ALL", 5)

        ids = await page(store, DELAYED) + [await delayed(store) for _ in range(10)]

        store._work.hidden.keep_up()
        assert store._work.hidden._windows == []
        monkeypatch.undo()
        assert await page(store, DELAYED) == ids


async def test_a_file_that_another_process_leases_in_its_place_changes_its_state(
    root: Path,
) -> None:
    async with store_on(root) as store, store_on(root) as other:
        message_id = await delayed(store)
        assert await page(store, DELAYED) == [message_id]

        taken = await other.take(ORDERS, message_id, LONG_SECONDS)

        taken.close(other._work.files)
        assert (await page(store, DELAYED), await page(store, LEASED)) == ([], [message_id])


@pytest.mark.parametrize("when", ["never", "too late"])
async def test_without_events_what_is_shown_is_right_and_listed_again_after_a_while(
    root: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    if when == "never":
        monkeypatch.setattr(hidden_index, "Watch", raising(errno.ENOSPC))
    with capture_logs() as logs:
        async with store_on(root) as store:
            if when == "too late":
                monkeypatch.setattr(store._work.files, "is_of_network", True)
            first, second = await delayed(store), await delayed(store)
            assert await page(store, DELAYED) == [first, second]
            await store.remove(ORDERS, first)

            assert await page(store, DELAYED) == [second]
            third = await delayed(store)
            assert await page(store, DELAYED, after=second) in ([], [third])

            async def sees_it() -> bool:
                return await page(store, DELAYED) == [second, third]

            await eventually(sees_it)

    told = [each for each in logs if each["event"] == "no file system events; listings only"]
    assert len(told) == (when == "never")  # `delay` was listed more often.


async def test_lost_events_cost_a_listing_and_no_message(
    root: Path, listings: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peek_hidden, "_KEEP_UP_SECONDS", LONG_SECONDS)
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    async with store_on(root) as store:
        message_id = await delayed(store)
        assert await page(store, DELAYED) == [message_id]
        before = listings[Folder.DELAY]
        path = root / "delay" / file_name(ORDERS, MessageId("another"))
        # The kernel drops an event that is like the one before.
        for _ in range(limit // 2 + 1):
            os.close(os.open(path, os.O_CREAT, 0o600))
            path.unlink()
        message = write_message(path, due_in_seconds=LONG_SECONDS)

        shown = await page(store, DELAYED) + await page(store, LEASED)

        # It has no seal: what lies there is under a lease.
        assert shown == [message_id, MessageId("another")]
        assert listings[Folder.DELAY] > before
        assert message.exists()


async def test_what_nobody_looks_at_any_more_is_dropped(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peek_hidden, "_KEEP_UP_SECONDS", 0.01)
    async with store_on(root) as store:
        message_id = await delayed(store)
        await page(store, DELAYED)
        descriptors = open_descriptors()
        monkeypatch.setattr(hidden_index, "IDLE_SECONDS", 0.0)

        async def is_at_rest() -> bool:
            return store._hidden_peeks._keeping is None

        await eventually(is_at_rest)

        assert store._work.hidden._windows == []
        assert open_descriptors() < descriptors
        assert await page(store, DELAYED) == [message_id]


async def test_a_broken_disk_is_an_error_and_not_an_empty_queue(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_on(root) as store:
        message_id = await delayed(store)
        with monkeypatch.context() as broken:
            broken.setattr(hidden, "run", lambda _, chains: [([], errno.EMFILE) for _ in chains])
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="Too many open files"):
                    await page(store, DELAYED)

        assert await page(store, DELAYED) == [message_id]


async def test_one_that_cannot_be_read_is_passed_over(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_on(root) as store:
        ids = [await delayed(store) for _ in range(3)]

        def fail_once(files: Files, chains: Sequence[Chain]) -> list[Outcome]:
            return [([], errno.EIO), *run(files, chains[1:])]

        monkeypatch.setattr(hidden, "run", fail_once)

        assert await page(store, DELAYED) == ids[1:]


class Others(threading.Thread):
    """A mover, a sweep and other servers, as their renames look: messages leave `delay` and come
    back, some for good."""

    def __init__(self, root: Path, ids: list[MessageId]) -> None:
        super().__init__()
        self._root, self._ids = root, ids
        self._random = random.Random(7)
        self.is_over = threading.Event()
        self.moves = 0

    def run(self) -> None:
        while not self.is_over.is_set():
            message_id = self._random.choice(self._ids)
            ready = self._root / "queues" / ORDERS / message_id
            hidden = self._root / "delay" / file_name(ORDERS, message_id)
            with suppress(FileNotFoundError):
                hidden.rename(ready)
                stamp(ready, LONG_SECONDS)
                ready.rename(hidden)
            self.moves += 1


@pytest.mark.parametrize("limit", [1, 7, 40])
async def test_a_message_that_stays_is_on_one_page_whoever_moves_others(
    root: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden_index, "MAX_KEYS", 64)
    async with store_on(root) as store:
        ids = [await delayed(store, f"own-{at}" if at % 5 == 0 else None) for at in range(100)]
        others = Others(root, ids[::2])
        others.start()
        try:
            for _ in range(4):
                moves = others.moves
                shown = await all_pages(store, DELAYED, limit)
                await asyncio.to_thread(wait_for_moves, others, moves)

                assert len(shown) == len(set(shown))
                assert [each for each in shown if each in ids[1::2]] == ids[1::2]
                assert shown == [each for each in ids if each in shown]
        finally:
            others.is_over.set()
            others.join()

        assert await all_pages(store, DELAYED, limit) == ids


def wait_for_moves(others: Others, moves: int) -> None:
    while others.moves == moves:
        others.is_over.wait(0.001)
