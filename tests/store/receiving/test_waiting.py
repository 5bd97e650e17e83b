"""Long polls inside the store: in line, one message wakes one, and nobody's message is lost."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from mq.errors import QueueNotFound, StoreUnavailable
from mq.names import QueueName
from mq.spool.watch import Watch
from mq.store.receiving.received_message import Received
from mq.store.receiving.waiting import Waiters
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.messages import new_id, write_message
from tests.support.stores import LONG_SECONDS, ORDERS, publish, receive, store_on
from tests.support.waiting import WAIT_SECONDS, parked, wait, waiters

MANY = 1000


async def test_one_message_wakes_one_of_a_thousand(root: Path) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        tasks = await waiters(store, MANY)
        before = files.calls["open_message"]

        message_id = await publish(store, b"one")
        received = await tasks[0]

        assert received is not None
        assert received.message_id == message_id
        assert files.calls["open_message"] - before <= 2
        await parked(store, MANY - 1)
        assert not any(task.done() for task in tasks[1:])
        store.stop_waiting()
        assert set(await asyncio.gather(*tasks[1:])) == {None}


@pytest.mark.parametrize("is_loaded", [False, True])
async def test_all_who_come_at_once_are_served_at_once_if_there_is_enough(
    root: Path, is_loaded: bool
) -> None:
    """Nobody waits, or is sent away, because of others who have their message already."""
    async with store_on(root) as store:
        if is_loaded:
            await store.describe_queue(ORDERS)
        ids = [await publish(store, b"body") for _ in range(30)]

        receives = [
            asyncio.create_task(store.receive(ORDERS, LONG_SECONDS, wait))
            for wait in (WAIT_SECONDS, 0.0, WAIT_SECONDS) * 10
        ]

        async with asyncio.timeout(20):
            received = await asyncio.gather(*receives)
        assert sorted(each.message_id for each in received if each is not None) == ids


async def test_a_thousand_messages_at_once_go_to_a_thousand_in_line(root: Path) -> None:
    async with store_on(root) as store:
        tasks = await waiters(store, MANY)

        ids = await asyncio.gather(*(publish(store, b"body") for _ in tasks))
        received = await asyncio.gather(*tasks)

        assert [each.message_id for each in received if each is not None] == sorted(ids)


async def test_waiters_that_leave_pass_their_turn_on(root: Path) -> None:
    """They leave at every moment: in line, woken, and while the message is being taken."""
    async with store_on(root) as store:
        for loops in range(40):
            first, second = await waiters(store, 2)
            message_id = await publish(store, b"body")
            for _ in range(loops):
                await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait({first})

            received = await second if first.cancelled() else first.result()

            assert received is not None
            assert (received.message_id, received.receive_count) == (message_id, 1)
            await store.remove(ORDERS, message_id)
            second.cancel()
            await asyncio.wait({second})
            await parked(store, 0)


@pytest.mark.parametrize("leaving", [1, 2, 3])
async def test_a_wake_up_that_meets_one_who_has_just_left_goes_to_the_next(
    root: Path, leaving: int
) -> None:
    """Cancelled, and still in the line: its task has not run since."""
    async with store_on(root) as store:
        *gone, last = await waiters(store, leaving + 1)
        news: list[tuple[QueueName, int]] = []
        store._work.ready.came = lambda *each: news.append(each)
        message_id = await publish(store, b"body")
        for task in gone:
            task.cancel()

        for each in news:
            store._receives.waiting.wake(*each)

        async with asyncio.timeout(20):
            received = await last
        assert received is not None
        assert received.message_id == message_id


@pytest.fixture
def no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Watch) -> None:
        raise OSError(24, "no more inotify instances")

    monkeypatch.setattr(Watch, "__init__", refuse)


@pytest.mark.usefixtures("no_events")
async def test_of_those_who_wait_for_a_queue_that_is_gone_one_finds_it_out_for_all(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mq.store.receiving.watching.RELIST_WAITING_SECONDS", 100.0)
    async with store_on(root) as store:
        tasks = await waiters(store, 3)
        shutil.rmtree(root / "queues" / ORDERS)
        store._work.ready.forget(ORDERS)

        store._receives.waiting.wake(ORDERS, 1)

        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in outcomes] == [QueueNotFound] * 3


@pytest.mark.usefixtures("no_events")
async def test_without_file_system_events_a_waiter_finds_what_others_put_there(
    root: Path,
) -> None:
    async with store_on(root) as store:
        task = wait(store)
        await parked(store, 1)

        placed = write_message(root / "queues" / "orders" / new_id()).name

        received = await task
        assert received is not None
        assert received.message_id == placed


@pytest.mark.usefixtures("no_events")
async def test_without_file_system_events_a_waiter_learns_that_its_queue_is_gone(
    root: Path,
) -> None:
    async with store_on(root) as store:
        tasks = await waiters(store, 3)

        (root / "queues" / "orders").rmdir()

        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(outcome, QueueNotFound)


async def test_too_many_waiters_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mq.store.receiving.waiting.MAX_WAITING_RECEIVES", 3)
    async with store_on(root) as store:
        tasks = await waiters(store, 3)

        with pytest.raises(StoreUnavailable, match="too many"):
            await wait(store)

        store.stop_waiting()
        await asyncio.gather(*tasks)


async def test_a_stop_ends_every_wait_at_whatever_step_it_is(root: Path) -> None:
    """A request that is just looking must not begin to wait after it."""
    async with store_on(root) as store:
        for steps in range(30):
            task = wait(store)
            for _ in range(steps):
                await asyncio.sleep(0)
            store.stop_waiting()
            async with asyncio.timeout(20):
                assert await task is None
            store._receives.waiting.is_stopped = False


async def test_nobody_waits_in_vain_at_a_store_that_fails(disk: Path) -> None:
    """Each is told 503, or served once the store works again."""
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        tasks = await waiters(store, 5)
        files.fail(*SYNCS, times=3)

        orders = disk / "queues" / "orders"
        while not all(task.done() for task in tasks):
            write_message(orders / new_id())
            await asyncio.wait(tasks, timeout=0.01)

        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(each) for each in outcomes} <= {Received, StoreUnavailable}
        assert isinstance(outcomes[0], StoreUnavailable)


async def test_a_message_comes_to_one_of_two_servers(root: Path) -> None:
    async with store_on(root) as one, store_on(root) as other:
        waiting = [wait(one), wait(other)]
        await parked(one, 1)
        await parked(other, 1)

        ids = [await publish(one, b"1"), await publish(one, b"2")]

        received = await asyncio.gather(*waiting)
        assert sorted(each.message_id for each in received if each is not None) == ids


async def test_who_was_there_keeps_its_place_when_another_took_its_message(root: Path) -> None:
    """A person moves a message away as it wakes the first in line."""
    async with store_on(root) as store:
        tasks = await waiters(store, 3)
        for _ in range(20):
            placed = write_message(root / "queues" / "orders" / new_id())
            placed.unlink()
        ids = [await publish(store, b"body") for _ in tasks]

        received = await asyncio.gather(*tasks)

        assert [each.message_id for each in received if each is not None] == ids


async def test_released_messages_go_to_who_waits(root: Path) -> None:
    async with store_on(root) as store:
        await publish(store, b"body")
        taken = await receive(store)
        [task] = await waiters(store, 1)

        await store.release_by_id(ORDERS, taken.message_id)

        received = await task
        assert received is not None
        assert (received.message_id, received.receive_count) == (taken.message_id, 2)


async def test_one_with_a_turn_leaves_nothing_and_others_what_is_for_those_before() -> None:
    """One that looks before the message comes, and parks after it, has woken a later one."""
    lines = Waiters(lambda: None, lambda: None)
    first, second, third, last = (lines.enter([ORDERS], lambda has_turn: None) for _ in range(4))
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
    second.park(deadline)
    last.park(deadline)
    assert third.ahead(ORDERS) == 1

    lines.wake(ORDERS, 1)
    first.park(deadline)

    assert second.has_turn
    assert second.ahead(ORDERS) == 0
    assert third.ahead(ORDERS) == 2
    second.begin_turn()
    assert third.ahead(ORDERS) == 1
    for each in (first, second, last):
        each.cancel()


async def test_what_comes_for_all_who_are_parked_calls_each_of_them_once() -> None:
    lines = Waiters(lambda: None, lambda: None)
    waiting = [lines.enter([ORDERS], lambda has_turn: None) for _ in range(2)]
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
    for each in waiting:
        each.park(deadline)

    lines.wake(ORDERS, 5)
    for each in waiting:
        each.begin_turn()
        each.park(deadline)

    assert lines.parked() == {ORDERS: 2}
    for each in waiting:
        each.cancel()
