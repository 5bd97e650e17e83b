"""The ready index: the right order, no listing per receive, and nobody's message out of reach."""

from __future__ import annotations

import errno
import math
import os
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import strategies as st
from structlog.testing import capture_logs

from mq.config import ServerConfig
from mq.disk.files import Files
from mq.ids import order_key
from mq.names import QueueName
from mq.spool.queue.listing import Listing
from mq.spool.root import open_root
from mq.spool.spool import Spool
from mq.store.shared_state import Workspace
from tests.support.counted import counted_calls
from tests.support.faults import raising
from tests.support.messages import new_id, seal_of, write_message
from tests.support.stores import LONG_SECONDS, ORDERS, drain, eventually, publish, receive, store_on

LATE = QueueName("late")
keys = st.builds(order_key, st.text("ab-", min_size=1, max_size=3), st.integers(0, 3))


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the folder of each queue was listed."""
    return counted_calls(monkeypatch, Spool, "names_in_queue")


async def test_a_queue_that_is_deleted_before_it_is_watched_alarms_nobody(
    root: Path, orders: Path
) -> None:
    work = Workspace(open_root(root, 0o700, Files())[0], ServerConfig(root=root), lambda: None)

    with capture_logs() as logs:
        work.ready.begin_listing(ORDERS).end_listing(Listing(0, 0, 0.0, [], []))
    orders.mkdir()
    work.ready.drain()

    assert logs == []
    assert work.ready.get(ORDERS) is None  # The next receive lists it, and watches it first.
    work.ready.close()
    work.spool.close()


async def test_an_old_event_brings_no_message_back_that_is_being_taken(
    root: Path, orders: Path
) -> None:
    """Between the file calls of one receive others read events, that of the arrival too."""
    work = Workspace(open_root(root, 0o700, Files())[0], ServerConfig(root=root), lambda: None)
    work.begin_round()
    orders.mkdir()
    ready = work.ready.begin_listing(ORDERS)
    ready.end_listing(Listing(0, 0, 0.0, [], []))
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


async def test_a_queue_is_watched_once_the_system_allows_that(
    root: Path, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mq.store.maintenance.RELIST_SECONDS", 0.02)
    with capture_logs() as logs:
        async with store_on(root) as store:
            with monkeypatch.context() as full:
                full.setattr("mq.spool.watch.Watch.add", raising(errno.ENOSPC))
                for _ in range(2):
                    assert await drain(store) == []
                    store._work.ready.begin_listing(ORDERS).end_listing(None)
            write_message(orders / new_id())

            async def is_watched() -> bool:
                return store._work.sees_all_events(ORDERS)

            await eventually(is_watched)

    assert [each["event"] for each in logs].count("queue is not watched; listings only") == 1


async def test_no_receive_lists_the_folder(root: Path, listings: Counter[str]) -> None:
    async with store_on(root) as store:
        published = [await publish(store, b"body") for _ in range(100)]
        received = [(await receive(store)).message_id for _ in range(50)]
        published += [await publish(store, b"body") for _ in range(50)]
        received += [(await receive(store)).message_id for _ in range(100)]

        assert received == published
        assert listings == {"orders": 1}


async def test_receives_of_an_empty_queue_that_nobody_touches_list_it_once(
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
    monkeypatch.setattr("mq.store.index.ready_queue.RELIST_PAUSE_FACTOR", 10**6)

    async with store_on(root) as store:
        published = [await publish(store, b"body") for _ in range(3)]
        assert (await receive(store)).message_id == published.pop(0)
        monkeypatch.setattr(Spool, "inode", raising(errno.EIO))
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
