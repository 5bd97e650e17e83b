"""What a receive sees through: a dropped index, damaged messages, a lease that is over, messages
that are too old."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import shutil
import time
from functools import partial
from pathlib import Path

import pytest

from mq.errors import StoreUnavailable
from mq.names import QueueName
from mq.spool.watch import Watch
from mq.store.queue import expiry
from mq.store.receiving.received_message import Received
from mq.store.shared_state import Workspace
from tests.support.faults import WatchedFiles
from tests.support.immutable import immutable
from tests.support.messages import SECOND_NS, names_in, new_id, write_message
from tests.support.stores import (
    LONG_SECONDS,
    ORDERS,
    batch_of,
    draft_of,
    drain,
    eventually,
    publish,
    receive,
    store_on,
)
from tests.support.submits import answered, receive_one
from tests.support.users import needs_root
from tests.support.waiting import got, waiters

OTHER = QueueName("other")


async def test_queue_made_again_with_the_same_inode_has_its_own_messages_at_once(
    root: Path, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receive itself learns of it from the events, within the pause between two listings."""
    # While the folder is open its inode is nobody else's.
    monkeypatch.setattr("mq.spool.open_queues.MAX_OPEN_QUEUES", 1)
    async with store_on(root) as store:
        for _ in range(100):
            for _ in range(3):
                await publish(store, b"old")
            assert (await receive(store)).body == b"old"
            await store.create_queue(OTHER)
            await publish(store, b"of another queue", OTHER)
            inode = orders.stat().st_ino
            shutil.rmtree(orders)
            orders.mkdir()
            # Another process may have made a folder in between, and have the number.
            if orders.stat().st_ino == inode:
                break
        else:
            pytest.skip("this file system gives no inode number twice")
        fresh = write_message(orders / new_id(), b"new").name

        assert await drain(store) == [fresh]


async def test_any_number_of_damaged_large_messages_cost_themselves_alone(
    root: Path, orders: Path
) -> None:
    async with store_on(root) as store:
        for _ in range(6):
            await publish(store, bytes(600_000))
        for message in orders.iterdir():
            message.write_bytes(os.urandom(600_000))
        whole = await publish(store, bytes(600_000))

        assert (await receive(store)).message_id == whole


async def test_lease_that_the_check_of_a_large_body_outlasted_is_not_answered(
    root: Path,
) -> None:
    """Another receiver may have the message by now, as after the barrier."""
    files = WatchedFiles()
    async with store_on(root, files) as store:
        message_id = await publish(store, bytes(600_000))
        gate = files.hold_back("read")
        receiving = asyncio.create_task(store.receive(ORDERS, 0.2))
        await gate.reached()
        late_ns = (root / "delay" / f"orders:{message_id}").stat().st_mtime_ns
        while late_ns > time.time_ns():
            await asyncio.sleep(0.001)
        gate.open()

        received = await receiving
        assert received is None or received.visible_ns > late_ns


async def test_two_receives_of_a_round_find_one_message_that_is_released_in_between(
    root: Path,
) -> None:
    """Another server had leased it, which the first receive does not know yet."""
    async with store_on(root) as store, store_on(root) as other:
        message_id = await publish(store, b"body")
        await store.describe_queue(ORDERS)
        (await other.take(ORDERS, message_id, LONG_SECONDS)).close(other._work.files)

        first, _, second = await asyncio.gather(
            store.receive(ORDERS, LONG_SECONDS),
            store.release_by_id(ORDERS, message_id),
            store.receive(ORDERS, LONG_SECONDS),
        )

        assert [each.message_id for each in (first, second) if each] == [message_id]


async def test_one_who_does_not_wait_leaves_a_message_to_one_who_does(root: Path) -> None:
    """One receive of several queues of a round, that comes before those who wait are told."""
    async with store_on(root) as store:
        await store.create_queue(OTHER)
        for queue in (ORDERS, OTHER):
            await store.describe_queue(queue)
        [waiting] = await waiters(store, 1)
        store._work.ready.came = lambda queue, count: None
        message_id, other_id = await publish(store, b"1"), await publish(store, b"2", OTHER)

        none, other = await asyncio.gather(receive_one(store, ORDERS), receive_one(store, OTHER))

        assert none is None
        assert other is not None
        assert other.message_id == other_id
        assert await got(waiting) == message_id


async def test_one_who_looks_into_several_queues_leaves_a_message_to_one_who_waits(
    root: Path,
) -> None:
    async with store_on(root) as store:
        await store.create_queue(OTHER)
        [waiting] = await waiters(store, 1)
        store._work.ready.came = lambda queue, count: None
        message_id = await publish(store, b"body")

        assert await store.receive_many(OTHER, 1, LONG_SECONDS, then=[ORDERS]) == []

        assert await got(waiting) == message_id


async def test_without_events_receives_of_several_queues_find_what_others_have_put_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Watch) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(Watch, "__init__", refuse)
    monkeypatch.setattr("mq.store.index.ready_queue.RELIST_PAUSE_FACTOR", 0.0)
    async with store_on(root) as store:
        await store.create_queue(OTHER)
        for queue in (ORDERS, OTHER):
            await store.describe_queue(queue)
        message_id = new_id()
        write_message(root / "queues" / OTHER / message_id)

        none, other = await asyncio.gather(receive_one(store, ORDERS), receive_one(store, OTHER))

        assert none is None
        assert other is not None
        assert other.message_id == message_id


async def test_messages_for_those_who_wait_or_may_are_not_spare(root: Path) -> None:
    async with store_on(root) as store:
        for _ in range(3):
            await publish(store, b"body")
        await store.describe_queue(ORDERS)

        trying = partial(store.submit_receive, limit=2, may_wait=True)
        asking = asyncio.ensure_future(answered(trying, ORDERS))
        await asyncio.sleep(0)
        assert store.count_spare(ORDERS) == 1
        assert len(await asking) == 2
        assert store.count_spare(ORDERS) == 1
        assert not store._receives._tries  # Nothing is kept of queues that come and go.
        await receive(store)
        await waiters(store, 1)
        assert store.count_spare(ORDERS, 1) == 0


async def test_receives_of_several_queues_that_have_nothing_sync_nothing(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        await store.create_queue(OTHER)
        for queue in (ORDERS, OTHER):
            await store.describe_queue(queue)
        before = files.syncs()

        found = await asyncio.gather(receive_one(store, ORDERS), receive_one(store, OTHER))

        assert not any(found)
        assert files.syncs() == before


async def test_receives_of_one_round_do_not_remove_many_old_messages_each(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests to other queues wait for the end of a round."""
    receives, messages = 32, 1500
    monkeypatch.setattr("mq.store.maintenance.SWEEP_SECONDS", 1_000)
    removed: list[int] = []
    begin_round = Workspace.begin_round

    def note(work: Workspace) -> None:
        removed.append(work.counts.of(ORDERS).expired)
        begin_round(work)

    monkeypatch.setattr(Workspace, "begin_round", note)
    async with store_on(root) as store:
        batch = batch_of(*[draft_of(b"body") for _ in range(messages)])
        last = (await store.publish_batch(ORDERS, batch))[-1]
        born = (root / "queues/orders" / last.message_id).stat().st_ctime_ns
        await eventually(lambda: _is_older(born, SECOND_NS // 20))
        await store.change_settings(ORDERS, {"ttl": "0.01"})
        found = await asyncio.gather(*(store.receive(ORDERS, 30) for _ in range(receives)))

        assert found == [None] * receives
        assert len(names_in(root / "remove")) == messages

    most = max(after - before for before, after in itertools.pairwise(removed))
    assert most <= expiry._AT_ONCE + receives * expiry._FEW


async def _is_older(born_ns: int, age_ns: int) -> bool:
    return time.time_ns() > born_ns + age_ns


@needs_root
async def test_a_folder_that_may_not_be_changed_costs_one_try_and_no_other_queue(
    root: Path, orders: Path
) -> None:
    """Each message was tried, while requests to other queues waited."""
    files = WatchedFiles()
    async with store_on(root, files) as store:
        await store.create_queue(OTHER)
        sent = [await publish(store, b"body") for _ in range(20)]
        with immutable(orders):
            await publish(store, b"of another queue", OTHER)
            before = files.calls["rename"]
            with pytest.raises(StoreUnavailable, match="folder queues/orders cannot be changed"):
                await store.receive(ORDERS, LONG_SECONDS)
            assert files.calls["rename"] == before + 1
            with pytest.raises(StoreUnavailable, match="folder queues/orders cannot be changed"):
                await store.receive_many(ORDERS, 5, LONG_SECONDS, 0)
            asked = [receive_one(store, each) for each in (ORDERS, OTHER)]
            refused, received = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(refused, StoreUnavailable)
        assert isinstance(received, Received)
        assert received.body == b"of another queue"
        assert await drain(store) == sent


async def test_many_files_of_another_user_hold_up_no_other_queue(
    root: Path, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person who had restored them held up all queues, for seconds with each receive."""
    monkeypatch.setattr("mq.store.receiving.taking.MOST_DENIED", 8)
    files = WatchedFiles()
    async with store_on(root, files) as store:
        sent = [await publish(store, b"body") for _ in range(200)]
        files.fail("open_message", code=errno.EACCES, times=10_000)
        before = files.calls["open_message"]

        with pytest.raises(StoreUnavailable, match="over 8 messages in queues/orders are not for"):
            await store.receive(ORDERS, LONG_SECONDS)
        with pytest.raises(StoreUnavailable, match="over 8 messages in queues/orders are not for"):
            await store.receive_many(ORDERS, 200, LONG_SECONDS, 0)

        assert files.calls["open_message"] - before < len(sent)
        files.before.clear()
        assert await drain(store) == sent
