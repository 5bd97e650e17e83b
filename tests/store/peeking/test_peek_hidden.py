"""Looks at leased and delayed messages: each that stays is seen once, while others are moved, and
few pages list `delay`."""

from __future__ import annotations

import asyncio
import errno
import random
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mq.disk.calls import Chain, Outcome, run
from mq.disk.files import Files
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder, State
from mq.names import MessageId, QueueName, file_name
from mq.spool.queue import hidden
from mq.spool.spool import Spool
from mq.store.peeking import peek_hidden
from mq.store.peeking.peek_hidden import HiddenPeeks
from mq.store.store import Store
from tests.support.counted import counted_calls
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


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Listings are used for ever."""
    monkeypatch.setattr(peek_hidden, "_KEEP_FACTOR", float("inf"))


@pytest.mark.usefixtures("kept")
async def test_pages_are_read_with_one_listing(root: Path, listings: Counter[str]) -> None:
    async with store_on(root) as store:
        ids = [await delayed(store, f"own-{99 - at}" if at % 3 else None) for at in range(60)]
        await publish(store, b"body")
        taken = await receive(store)
        before = listings[Folder.DELAY]

        assert await all_pages(store, DELAYED, 7) == ids
        # The first one, and the last one, which is empty.
        assert listings[Folder.DELAY] == before + 2
        assert await all_pages(store, LEASED, 1) == [taken.message_id]
        late = [await delayed(store), await delayed(store, "a")]
        await store.put_back(taken)
        await store.remove(ORDERS, ids[0])
        assert await all_pages(store, DELAYED, 13) == ids[1:] + late
        assert await page(store, LEASED) == []


@pytest.mark.usefixtures("kept")
async def test_the_first_page_has_all_and_another_one_is_not_empty_while_there_is_more(
    root: Path,
) -> None:
    async with store_on(root) as store:
        first, second = await delayed(store), await delayed(store)
        assert await page(store, DELAYED, 1) == [first]
        third = await delayed(store)

        assert await page(store, DELAYED, after=first) == [second]
        assert await page(store, DELAYED, after=second) == [third]
        assert await page(store, DELAYED) == [first, second, third]


async def test_each_queue_has_a_listing_of_its_own(root: Path) -> None:
    async with store_on(root) as store:
        first = await delayed(store)
        assert await page(store, DELAYED) == [first]
        (root / "queues" / "order").mkdir()
        write_message(root / "delay" / f"order:{foreign_id()}", due_in_seconds=LONG_SECONDS)

        assert await page(store, DELAYED) == [first]


@pytest.mark.usefixtures("kept")
async def test_a_queue_with_more_than_one_listing_has_is_seen_to_the_end(
    root: Path, monkeypatch: pytest.MonkeyPatch, listings: Counter[str]
) -> None:
    monkeypatch.setattr(hidden, "MAX_HIDDEN_KEYS", 10)
    monkeypatch.setattr(peek_hidden, "_MAX_MESSAGES", 20)
    async with store_on(root) as store:
        ids = [await delayed(store, f"own-{at}" if at % 2 else None) for at in range(35)]

        for limit in (1, 3, 10, 100):
            before = listings[Folder.DELAY]
            assert await all_pages(store, DELAYED, limit) == ids
            assert listings[Folder.DELAY] - before <= 5
        assert 0 < store._hidden_peeks._messages() <= 20


async def test_a_file_that_another_process_leases_in_its_place_changes_its_state(
    root: Path,
) -> None:
    async with store_on(root) as store, store_on(root) as other:
        message_id = await delayed(store)
        assert await page(store, DELAYED) == [message_id]

        taken = await other.take(ORDERS, message_id, LONG_SECONDS)

        taken.close(other._work.files)
        assert (await page(store, DELAYED), await page(store, LEASED)) == ([], [message_id])


async def test_a_listing_is_dropped_after_a_while(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = list[object]()
    keep = HiddenPeeks._keep

    def note(peeks: HiddenPeeks, *given: Any) -> None:
        kept.append(given)
        keep(peeks, *given)

    monkeypatch.setattr(HiddenPeeks, "_keep", note)
    async with store_on(root) as store:
        message_id = await delayed(store)
        assert await page(store, DELAYED) == [message_id]
        assert len(kept) == 1

        async def is_at_rest() -> bool:
            return store._hidden_peeks._dropping is None

        await eventually(is_at_rest)

        assert not store._hidden_peeks._kept


@pytest.mark.usefixtures("kept")
async def test_few_listings_are_kept(root: Path) -> None:
    async with store_on(root) as store:
        for queue in (QueueName(f"queue-{number}") for number in range(12)):
            await store.create_queue(queue)
            await store.peek(queue, 1, state=DELAYED)

        kept = [queue for queue, _ in store._hidden_peeks._kept]
        assert kept == [f"queue-{number}" for number in range(4, 12)]


async def test_a_listing_that_got_old_is_not_used(
    root: Path, monkeypatch: pytest.MonkeyPatch, listings: Counter[str]
) -> None:
    monkeypatch.setattr(peek_hidden, "_KEEP_FACTOR", 0)
    async with store_on(root) as store:
        first, _, second = await delayed(store), await page(store, DELAYED), await delayed(store)
        before = listings[Folder.DELAY]

        assert await page(store, DELAYED, after=first) == [second]
        assert listings[Folder.DELAY] == before + 1


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
@pytest.mark.parametrize("keep_factor", [0, 20, float("inf")])
async def test_a_message_that_stays_is_on_one_page_whoever_moves_others(
    root: Path, limit: int, keep_factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden, "MAX_HIDDEN_KEYS", 64)
    monkeypatch.setattr(peek_hidden, "_KEEP_FACTOR", keep_factor)
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
