"""The ready index: the right order, no listing per fetch, and nobody's message out of reach."""

from __future__ import annotations

import errno
import math
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq.config import ServerConfig
from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.names import QueueName, order_key
from mq.spool.folders import Spool
from mq.spool.queue.listing import Listing
from mq.spool.root import open_root
from mq.store.context import Workspace
from mq.store.index.ready_queue import ReadyQueue
from tests.support.counted import counted_calls
from tests.support.messages import new_id, seal_of, write_message
from tests.support.stores import LONG_SECONDS, ORDERS, drain, eventually, publish, receive, store_on

LATE = QueueName("late")
keys = st.builds(order_key, st.text("ab-", min_size=1, max_size=3), st.integers(0, 3))


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the folder of each queue was listed."""
    return counted_calls(monkeypatch, Spool, "names_in_queue")


async def test_an_old_event_brings_no_message_back_that_is_being_taken(
    root: Path, orders: Path
) -> None:
    """Between the file calls of one fetch others read events; that of the arrival is among them."""
    work = Workspace(open_root(root, 0o700, Files())[0], ServerConfig(root=root), lambda: None)
    work.begin_round()
    orders.mkdir()
    ready = work.ready.begin_listing(ORDERS)
    ready.end_listing(Listing(0, 0, 0.0, []))
    message_id = write_message(orders / new_id(), b"body", seal=seal_of(b"body")).name
    work.ready.drain()
    assert ready.pop() == message_id

    ready.begin_taking(message_id)
    (orders / message_id).rename(root / "elsewhere")
    (root / "elsewhere").rename(orders / message_id)
    work.ready.drain()

    assert message_id not in ready
    assert ready.end_taking(message_id)
    work.ready.close()
    work.spool.close()


# One queue in memory


@given(st.lists(keys, unique_by=lambda key: key[24:]), st.sets(st.integers(0, 30)))
def test_what_is_left_comes_out_oldest_first(added: list[str], dropped: set[int]) -> None:
    ready = ReadyQueue()
    for key in added:
        ready.add(key)
        ready.add(key)
    left = [key for number, key in enumerate(added) if number not in dropped]
    for key in set(added) - set(left):
        ready.discard(key[24:])
        ready.discard(key[24:])

    assert len(ready) == len(left)
    assert [ready.pop() for _ in left] == [key[24:] for key in sorted(left)]
    assert ready.pop() is None


def test_entry_that_came_back_with_another_time_stands_at_its_new_place() -> None:
    ready = ReadyQueue()
    ready.add(order_key("first", 1))
    ready.add(order_key("second", 2))
    ready.discard("first")
    ready.add(order_key("first", 3))

    assert [ready.pop(), ready.pop(), ready.pop()] == ["second", "first", None]


@pytest.mark.parametrize("limit", [0, 1, 3, 5, 9])
def test_several_are_popped_in_the_order_in_which_each_would_be(limit: int) -> None:
    alone, together = IndexFollower(), IndexFollower()
    for told in (alone, together):
        for number in (4, 1, 3, 0, 2, 5):
            told.ready.add(order_key(str(number), number))
        told.ready.discard_all(["nowhere", "1"])
        told.ready.add(order_key("1", 9))
        told.ready.discard("3")

    one_by_one = [each for _ in range(limit) if (each := alone.ready.pop()) is not None]

    assert together.ready.pop_some(limit) == one_by_one == ["0", "2", "4", "5", "1"][:limit]
    assert together.gone == alone.gone
    assert len(together.ready) == len(alone.ready) == max(0, 5 - limit)


class IndexFollower:
    """An index, and the messages that it says have gone."""

    def __init__(self) -> None:
        self.gone: list[str] = []
        self.ready = ReadyQueue()
        self.ready.follow(self)

    def came(self, key: str) -> None:
        pass

    def went(self, message_id: str) -> None:
        self.gone.append(message_id)


def test_with_peers_each_pick_is_random_among_the_oldest_that_are_left() -> None:
    first = set()
    for _ in range(200):
        ready, left = ReadyQueue(), [*"012345"]
        for each in left:
            ready.add(order_key(each, int(each)))
        ready.discard("1")
        ready.restore(order_key("1", 1))
        first.add((picked := ready.pop_some(4, among=3))[0])
        for each in picked:
            assert each in left[:3]
            left.remove(each)
        assert ready.pop_some(3) == left

    assert first == {"0", "1", "2"}


@pytest.mark.parametrize("discard", [ReadyQueue.discard, lambda it, name: it.discard_all([name])])
def test_what_left_while_a_listing_ran_does_not_come_back_with_it(
    discard: Callable[[ReadyQueue, str], None],
) -> None:
    ready = ReadyQueue()
    known, listed = order_key("known", 1), order_key("listed", 2)
    ready.add(known)

    ready.begin_listing()
    ready.pop()
    discard(ready, "listed")
    ready.end_listing(Listing(1, 1, 0.0, [known, listed, order_key("new", 3)]))

    assert [ready.pop(), ready.pop()] == ["new", None]


def test_what_left_and_came_back_while_a_listing_ran_is_there_once() -> None:
    ready = ReadyQueue()
    key = order_key("again", 1)
    ready.add(key)

    ready.begin_listing()
    ready.discard("again")
    ready.add(key)
    ready.end_listing(Listing(1, 1, 0.0, [key]))

    assert [ready.pop(), ready.pop()] == ["again", None]


# A queue on the disk


async def test_no_fetch_lists_the_folder(root: Path, listings: Counter[str]) -> None:
    async with store_on(root) as store:
        published = [await publish(store, b"body") for _ in range(100)]
        fetched = [(await receive(store)).message_id for _ in range(50)]
        published += [await publish(store, b"body") for _ in range(50)]
        fetched += [(await receive(store)).message_id for _ in range(100)]

        assert fetched == published
        assert listings == {"orders": 1}


async def test_fetches_of_an_empty_queue_that_nobody_touches_list_it_once(
    root: Path, orders: Path, listings: Counter[str]
) -> None:
    async with store_on(root) as store:
        assert await store.receive(ORDERS, LONG_SECONDS) is None
        os.utime(orders, (1, 1))
        listings.clear()

        async def is_listed() -> int:
            assert await store.receive(ORDERS, LONG_SECONDS) is None
            return listings.total()

        await eventually(is_listed)
        for _ in range(300):
            await is_listed()
        assert listings.total() == 1


async def test_disk_that_does_not_say_which_folder_it_is_costs_a_listing_and_no_more(
    root: Path, orders: Path, monkeypatch: pytest.MonkeyPatch, listings: Counter[str]
) -> None:
    """The look is nobody's request: an error of it would end the committer."""

    def fail(spool: Spool, folder: Folder, name: str) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async with store_on(root) as store:
        published = [await publish(store, b"body") for _ in range(3)]
        assert (await receive(store)).message_id == published.pop(0)
        monkeypatch.setattr(Spool, "inode", fail)
        orders.rename(orders.with_name("elsewhere"))
        orders.with_name("elsewhere").rename(orders)

        assert await drain(store) == published
        assert listings == {"orders": 2}


async def test_messages_that_were_there_before_the_start_come_in_order(
    root: Path, orders: Path
) -> None:
    async with store_on(root) as store:
        published = [await publish(store, b"body") for _ in range(20)]

    async with store_on(root) as store:
        assert await drain(store) == published


async def test_order_is_by_time_of_id_then_of_seal_then_of_file(root: Path, orders: Path) -> None:
    start_ns = time.time_ns() // 1_000_000 * 1_000_000
    orders.mkdir(parents=True)
    by_seal = write_message(
        orders / "by-seal", b"body", seal=seal_of(b"body", published_ns=start_ns - 2_000_000_000)
    )
    by_mtime = write_message(orders / "by-mtime")
    os.utime(by_mtime, ns=(start_ns, start_ns - 1_000_000_000))
    by_id = write_message(orders / new_id())
    os.utime(by_id, ns=(0, 0))

    async with store_on(root) as store:
        assert await drain(store) == [by_seal.name, by_mtime.name, by_id.name]


def test_what_is_behind_a_place_is_found_in_order_whatever_came_and_went() -> None:
    ready = ReadyQueue()
    ids = [new_id() for _ in range(20)]
    for message_id in ids[::-1]:
        ready.add(message_id)
    ready.discard(ids[5])
    ready.add(ids[5])
    for message_id in (ids[0], ids[7]):
        ready.discard(message_id)

    assert ready.behind(ids[0], 3) == ids[1:4]
    assert ready.behind(ids[4], 100) == [*ids[5:7], *ids[8:]]
    assert ready.behind(ids[-1], 1) == []
    assert ready.pop() == ids[1]
    assert ready.oldest(2) == ids[2:4]


@pytest.mark.parametrize("is_made_again", [False, True])
async def test_a_folder_that_is_removed_while_the_server_has_it_open_is_looked_at_anew(
    root: Path, is_made_again: bool
) -> None:
    async with store_on(root) as store:
        await publish(store, b"body")
        await receive(store)
        assert store._work.ready.get(ORDERS) is not None
        told: list[tuple[QueueName, int]] = []
        store._work.ready.came = lambda queue, count: told.append((queue, count))

        shutil.rmtree(root / "queues" / ORDERS)
        if is_made_again:
            (root / "queues" / ORDERS).mkdir()
        store._work.ready.drain()

        assert (ORDERS, 1) in told
        assert store._work.ready.get(ORDERS) is None


async def test_a_queue_is_not_listed_again_because_it_was_made(
    root: Path, listings: Counter[str]
) -> None:
    async with store_on(root) as store:
        ready = store._work.ready
        ready._last_drain = math.inf  # that it was made is told below, and not before
        await store.create_queue(LATE)
        await publish(store, b"body", LATE)
        assert await store.receive(LATE, LONG_SECONDS) is not None
        index = ready.get(LATE)

        ready.drain()

        assert index is not None
        assert ready.get(LATE) is index
        assert listings[LATE] == 1
