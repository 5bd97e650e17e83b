"""Receives that wait are tried with others of a round, in their turn."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from mq.errors import StoreUnavailable
from mq.names import QueueName
from mq.spool.watch import Watch
from mq.store.receiving.long_receive import LongPoll
from mq.store.receiving.oldest import Ask
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.messages import new_id, write_message
from tests.support.stores import ORDERS, batch_of, draft_of, eventually, publish, store_on
from tests.support.submits import note_operations, receive_one
from tests.support.waiting import got, parked, waiters


async def test_those_who_are_woken_together_share_an_operation(
    quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of the committer could wake them one by one."""
    async with store_on(quick_folder / "root") as store:
        tasks = await waiters(store, 30)
        made = note_operations(monkeypatch, "receive_first", "lease_some", "lease_each")

        published = await store.publish_batch(ORDERS, batch_of(*(draft_of(b"body") for _ in tasks)))
        received = await asyncio.gather(*tasks)

        assert [each.message_id for each in received if each is not None] == [
            each.message_id for each in published
        ]
        assert len(made) <= 5


@pytest.mark.parametrize("way", [receive_one, lambda store, queue: store.receive(queue, None)])
async def test_one_who_is_woken_comes_before_those_who_do_not_wait(
    quick_folder: Path, way: Callable[[Store, QueueName], Coroutine[Any, Any, Received | None]]
) -> None:
    """They ask at every moment: before the message comes, and between the call of the one who waits
    and its receive."""
    async with store_on(quick_folder / "root") as store:
        for loops in range(40):
            (task,) = await waiters(store, 1)
            publishing = asyncio.create_task(publish(store, b"body"))
            passing = []
            for _ in range(loops):
                passing.append(asyncio.create_task(way(store, ORDERS)))
                await asyncio.sleep(0)

            received = await task
            assert received is not None
            assert received.message_id == await publishing
            assert {*await asyncio.gather(*passing)} <= {None}


async def test_nothing_is_taken_for_one_who_leaves_before_its_round(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_on(root) as store:
        await publish(store, b"body")
        made = note_operations(monkeypatch, "receive_first", "lease_some", "lease_each")
        told: list[object] = []

        receiving = store.wait_for([ORDERS], Ask(), LongPoll(60), lambda *each: told.append(each))
        receiving.cancel()

        assert await receive_one(store, ORDERS) is not None
        assert len(made) == 1
        assert told == []
        await parked(store, 0)


async def test_one_for_whom_there_can_be_nothing_waits_without_a_try(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_on(root) as store:
        first = await waiters(store, 3)
        made = note_operations(monkeypatch, "receive_first", "lease_some", "lease_each")
        told: list[Received] = []

        store.wait_for([ORDERS], Ask(), LongPoll(60), lambda taken, _: told.extend(taken))
        await parked(store, 4)
        assert not made

        ids = [await publish(store, b"body") for _ in range(4)]
        received = [await each for each in first]
        await eventually(lambda: has(told, 1))
        assert [each.message_id for each in (*received, *told) if each is not None] == ids


async def test_one_that_waited_without_a_try_tries_before_it_ends(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_on(root) as store:
        (task,) = await waiters(store, 1)
        made = note_operations(monkeypatch, "receive_first", "lease_some", "lease_each")
        told: list[object] = []

        store.wait_for([ORDERS], Ask(), LongPoll(0.05), lambda *each: told.append(each))
        await eventually(lambda: has(told, 1))

        assert told == [([], None)]
        assert len(made) == 1
        task.cancel()


async def test_one_behind_others_hears_of_a_failure(disk: Path) -> None:
    """Those who came before it waited when the disk failed."""
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        await store.create_queue(QueueName("teas"))
        (task,) = await waiters(store, 1)
        files.fail(*SYNCS, times=1_000_000)
        with pytest.raises(StoreUnavailable):
            await publish(store, b"body", QueueName("teas"))

        async def has_failed() -> bool:
            return store._committer.failure is not None

        await eventually(has_failed)
        told: list[object] = []

        store.wait_for([ORDERS], Ask(), LongPoll(60), lambda *each: told.append(each[1]))
        await eventually(lambda: has(told, 1))

        assert isinstance(told[0], StoreUnavailable)
        files.before.clear()
        task.cancel()


async def has(told: list[Any], count: int) -> bool:
    return len(told) == count


async def test_without_file_system_events_one_who_comes_looks_for_those_who_wait(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Watch) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(Watch, "__init__", refuse)
    monkeypatch.setattr("mq.store.receiving.watching.RELIST_WAITING_SECONDS", 100.0)
    monkeypatch.setattr("mq.store.index.ready_queue.RELIST_PAUSE_FACTOR", 0.0)
    async with store_on(root) as store:
        await store.describe_queue(ORDERS)
        [first] = await waiters(store, 1)
        message_id = new_id()
        write_message(root / "queues" / ORDERS / message_id)

        later = store.wait_for([ORDERS], Ask(), LongPoll(60.0), lambda taken, error: None)

        assert await got(first) == message_id
        later.cancel()


async def test_one_who_comes_after_the_stop_waits_for_nobody_ahead(root: Path) -> None:
    """One who was called by then has not begun to receive."""
    async with store_on(root) as store:
        await store.describe_queue(ORDERS)
        [called] = await waiters(store, 1)
        store._receives.waiting.wake(ORDERS, 1)
        told: asyncio.Future[list[Received]] = asyncio.get_running_loop().create_future()

        store.stop_waiting()
        store.wait_for([ORDERS], Ask(), LongPoll(60.0), lambda taken, error: told.set_result(taken))

        async with asyncio.timeout(20):
            assert await told == []
            assert await called is None
