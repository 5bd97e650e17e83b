"""Leases that are over before their receivers can have the answer: such receives do not count."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from mq.errors import StoreUnavailable
from mq.names import QueueName
from mq.store.receiving.taking import Taken, Taker
from mq.store.store import Store
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.messages import SECOND_NS, names_in, read_seal
from tests.support.stores import LONG_SECONDS, ORDERS, publish, receive
from tests.support.submits import receive_one


@pytest.fixture
def files() -> WatchedFiles:
    return WatchedFiles()


def _set_clock_ahead(store: Store, files: WatchedFiles, times: int) -> None:
    """At each of the next `times` syncs, by twice what a lease takes."""
    ahead_ns: list[int] = []

    def step(*_: object) -> None:
        if len(ahead_ns) < times:
            ahead_ns.append(int(2 * LONG_SECONDS * SECOND_NS))

    store._work.clock_ns = lambda: time.time_ns() + sum(ahead_ns)
    files.before |= dict.fromkeys(SYNCS, step)


async def test_lease_that_the_barrier_outlasted_is_not_answered(
    root: Path, disk: Path, store: Store, files: WatchedFiles, orders: Path
) -> None:
    """Nobody received the message: it is ready, and that receive is not counted."""
    message_id = await publish(store, b"body")
    _set_clock_ahead(store, files, times=1000)

    assert await store.receive(ORDERS, LONG_SECONDS) is None

    files.before.clear()
    assert names_in(orders) == [message_id]
    assert (await receive(store)).receive_count == 1


@pytest.mark.parametrize("limit", [1, 3])
async def test_message_whose_lease_the_barrier_outlasted_comes_before_those_behind_it(
    disk: Path, store: Store, files: WatchedFiles, limit: int
) -> None:
    published = [await publish(store, b"body") for _ in range(3)]
    _set_clock_ahead(store, files, times=1)

    received = await store.receive_many(ORDERS, limit, LONG_SECONDS)

    assert [each.message_id for each in received] == published[:limit]


async def test_messages_taken_before_a_pause_come_before_those_taken_after_it(
    disk: Path, store: Store, files: WatchedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large receive takes them in turns, and only the leases of the first turn are over."""
    published = [await publish(store, b"body") for _ in range(70)]
    take_together, ahead_ns = Taker.take_together, 0

    def go_on(*_: object) -> None:
        nonlocal ahead_ns
        ahead_ns += (
            int(0.6 * LONG_SECONDS * SECOND_NS) if ahead_ns < LONG_SECONDS * SECOND_NS else 0
        )

    def take_and_pause(taker: Taker, *asked: Any) -> list[Taken | Exception]:
        taken = take_together(taker, *asked)
        go_on()
        return taken

    store._work.clock_ns = lambda: time.time_ns() + ahead_ns
    monkeypatch.setattr(Taker, "take_together", take_and_pause)
    files.before |= dict.fromkeys(SYNCS, go_on)

    received = await store.receive_many(ORDERS, 100, LONG_SECONDS)

    assert [each.message_id for each in received] == published


async def test_what_the_mover_brings_back_while_the_barrier_takes_too_long_comes_first(
    disk: Path, store: Store, files: WatchedFiles, orders: Path
) -> None:
    published = [await publish(store, b"body") for _ in range(2)]
    _set_clock_ahead(store, files, times=1)
    step = files.before["sync"]

    def bring_back(*_: object) -> None:
        leased = disk / "delay" / f"orders:{published[0]}"
        if leased.exists() and len(names_in(orders)) == 1:
            leased.rename(orders / published[0])
        step()

    files.before |= dict.fromkeys(SYNCS, bring_back)

    received = await receive(store)

    assert (received.message_id, received.receive_count) == (published[0], 1)


async def test_a_receive_by_id_that_the_barrier_outlasted_is_not_counted(
    disk: Path, store: Store, files: WatchedFiles, orders: Path
) -> None:
    """However often it is tried."""
    message_id = await publish(store, b"body")
    _set_clock_ahead(store, files, times=1000)

    with pytest.raises(StoreUnavailable):
        await store.take(ORDERS, message_id, LONG_SECONDS)

    files.before.clear()
    assert read_seal(orders / message_id).receive_count == 0
    assert (await receive(store)).receive_count == 1


async def test_a_receive_by_id_that_comes_in_time_at_the_second_try_counts_once(
    disk: Path, store: Store, files: WatchedFiles
) -> None:
    message_id = await publish(store, b"body")
    (await receive(store, seconds=10 * LONG_SECONDS)).close(store._work.files)
    _set_clock_ahead(store, files, times=1)

    received = await store.take(ORDERS, message_id, LONG_SECONDS)

    received.close(store._work.files)
    assert received.receive_count == 2


async def test_of_several_queues_one_whose_message_grows_too_old_meanwhile_has_none(
    disk: Path, store: Store, files: WatchedFiles
) -> None:
    teas = QueueName("teas")
    await store.create_queue(teas, {"ttl": "0.5"})
    for queue in (ORDERS, teas):
        await store.describe_queue(queue)
    message_id = await publish(store, b"order")
    tea = await publish(store, b"tea", teas)
    old_ns = (disk / "queues" / teas / tea).stat().st_ctime_ns + SECOND_NS

    def grow_old(*_: object) -> None:
        while time.time_ns() < old_ns:
            time.sleep(0.01)

    files.before |= dict.fromkeys(SYNCS, grow_old)

    received, none = await asyncio.gather(receive_one(store, ORDERS), receive_one(store, teas))

    assert received is not None
    assert received.message_id == message_id
    assert none is None
    assert names_in(disk / "remove") == [f"{teas}:{tea}"]
