"""What other processes do to a root is seen: a person's `mv`, a mover, another server."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from mq.commit.blocking import BlockingCommitter
from mq.config import SECOND_NS
from mq.errors import StoreUnavailable
from mq.names import MessageId
from mq.spool.rolling import Rolled
from mq.store.publishing.filling import Batch
from mq.store.receiving.receive import receive as receive_oldest
from mq.store.store import Store
from tests.support.faults import WatchedFiles, raising
from tests.support.messages import foreign_id, new_id, write_message
from tests.support.redelivery import move_due
from tests.support.stores import (
    LONG_SECONDS,
    ORDERS,
    batch_of,
    draft_of,
    drain,
    eventually,
    publish,
    publish_as,
    receive,
    store_on,
)
from tests.support.workspaces import workspace_on


async def test_message_put_by_hand_is_received_at_once(root: Path, orders: Path) -> None:
    async with store_on(root) as store:
        assert await store.receive(ORDERS, LONG_SECONDS) is None

        for message_id in (new_id(), foreign_id(), "by-hand"):
            write_message(root / "elsewhere", b"by hand").rename(orders / message_id)
            received = await receive(store)

            assert (received.message_id, received.body) == (message_id, b"by hand")


async def test_files_that_are_no_messages_are_not_received(root: Path, orders: Path) -> None:
    async with store_on(root) as store:
        assert await store.receive(ORDERS, LONG_SECONDS) is None
        for name in (".hidden", "with space", "with~tilde", "a:b"):
            write_message(orders / name)
        (orders / "folder").mkdir()
        (orders / "link").symlink_to("nowhere")
        message_id = await publish(store, b"body")

        assert await drain(store) == [message_id]


async def test_message_removed_by_hand_is_passed_over(root: Path, orders: Path) -> None:
    async with store_on(root) as store:
        published = [await publish(store, b"body") for _ in range(4)]
        first = await receive(store)

        (orders / published[1]).rename(root / "elsewhere")
        (orders / published[2]).unlink()

        assert first.message_id == published[0]
        assert await drain(store) == published[3:]


async def test_message_that_a_mover_redelivers_is_received_at_once(
    root: Path, orders: Path
) -> None:
    async with store_on(root) as store:
        await publish(store, b"body")
        taken = await receive(store)
        assert await store.receive(ORDERS, LONG_SECONDS) is None
        # Clearing the stamp ends the lease; the barrier could outlast a lease of one millisecond.
        os.utime(root / "delay" / f"orders:{taken.message_id}", (0, 0))

        async def is_moved() -> bool:
            move_due(root)
            return os.listdir(orders) != []

        await eventually(is_moved)
        assert (await receive(store)).message_id == taken.message_id


async def test_messages_are_found_though_events_were_lost(root: Path, orders: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    async with store_on(root) as store:
        assert await store.receive(ORDERS, LONG_SECONDS) is None
        restless = write_message(orders / "0")
        for number in range(limit // 2 + 2):
            restless = restless.rename(orders / str(number % 2))
        restless.unlink()
        late = new_id()
        write_message(root / "elsewhere").rename(orders / late)

        async def is_received() -> bool:
            return await drain(store) == [late]

        await eventually(is_received)


async def test_queue_made_again_by_another_process_has_its_own_messages_alone(
    root: Path, orders: Path
) -> None:
    async with store_on(root) as store:
        for _ in range(3):
            await publish(store, b"old")
        assert (await receive(store)).body == b"old"

        orders.rename(root / "remove" / "orders:.elsewhere")
        orders.mkdir()
        fresh = write_message(orders / new_id(), b"new").name

        assert await drain(store) == [fresh]
        fresh = await publish(store, b"new")
        assert await drain(store) == [fresh]


async def test_server_without_file_system_events_finds_everything_by_listing(
    root: Path, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mq.store.index.ready_queues.Watch.__init__", raising(errno.EMFILE))
    async with store_on(root) as store:
        own = await publish(store, b"body")
        assert await drain(store) == [own]
        by_hand = write_message(root / "elsewhere").rename(orders / new_id()).name

        async def is_received() -> bool:
            return await drain(store) == [by_hand]

        await eventually(is_received)


async def test_queue_whose_folder_has_the_time_zero_is_listed(
    root: Path, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mq.store.index.ready_queues.Watch.__init__", raising(errno.EMFILE))
    async with store_on(root) as store:
        assert await store.receive(ORDERS, LONG_SECONDS) is None
        by_hand = write_message(root / "elsewhere").rename(orders / new_id()).name
        os.utime(orders, (0, 0))

        async def is_received() -> bool:
            return await drain(store) == [by_hand]

        await eventually(is_received)


async def test_two_servers_on_one_root_give_each_message_once_and_in_order(root: Path) -> None:
    async with store_on(root) as one, store_on(root) as two:
        published = []
        for number in range(60):
            published.append(await publish((one, two)[number % 2], b"body"))
        received = [(await receive((one, two)[number // 2 % 2])).message_id for number in range(60)]

        assert received == published
        assert await drain(one) == await drain(two) == []


async def test_one_lost_race_tells_of_all_that_others_took(root: Path) -> None:
    """There is not one more failed open for each message, which would cost as much as the receives
    do."""
    files = WatchedFiles()
    async with store_on(root, files) as one, store_on(root) as two:
        published = [await publish(one, b"body") for _ in range(40)]
        assert (await receive(one)).message_id == published[0]
        assert len(await two.receive_many(ORDERS, 30, LONG_SECONDS)) == 30

        files.calls.clear()

        assert (await receive(one)).message_id == published[31]
        assert files.calls["open_message"] <= 2


async def test_beside_peers_no_race_is_run_for_what_they_took_before(root: Path) -> None:
    files = WatchedFiles()
    async with store_on(root, files, peers=1) as one, store_on(root, peers=1) as two:
        published = [await publish(one, b"body") for _ in range(40)]
        taken = [(await receive(one)).message_id]
        others = await two.receive_many(ORDERS, 30, LONG_SECONDS)
        taken += [each.message_id for each in others]

        files.calls.clear()
        taken.append((await receive(one)).message_id)

        assert files.calls["open_message"] == 1
        assert len(set(taken)) == 32
        assert set(taken) < set(published)


def test_receive_beside_peers_does_not_wait_for_them(root: Path) -> None:
    """That holds for a queue that is nearly empty too: a wait costs more than a lost race."""
    pauses: list[float] = []
    with workspace_on(root, ORDERS, time.time_ns) as work:
        work.config = replace(work.config, peers=2)
        message_id = write_message(root / "queues" / ORDERS / new_id()).name
        committer = BlockingCommitter(None, work.begin_round, work.end_calls, pauses.append)
        for expected in (message_id, None):
            received = committer.run(receive_oldest(work, ORDERS, 3600 * SECOND_NS))

            assert (received and received.message_id) == expected
    assert pauses == []


async def test_servers_that_race_for_messages_give_each_once(root: Path) -> None:
    async with store_on(root, peers=1) as one, store_on(root, peers=1) as two:
        published = {await publish(one, b"body") for _ in range(200)}

        halves = await asyncio.gather(*(drain(store) for store in (one, two) * 4))

        received = Counter(message_id for half in halves for message_id in half)
        assert received == Counter(published)


async def test_what_others_took_is_not_counted_for_ever_where_there_are_no_events(
    root: Path, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server publishes, and another one, of which nobody tells it, receives."""
    monkeypatch.setattr("mq.store.index.ready_queues.Watch.__init__", raising(errno.EMFILE))
    monkeypatch.setattr("mq.store.maintenance.RELIST_SECONDS", 0.02)
    async with store_on(root, max_queue_messages=2) as store:
        for _ in range(2):
            (orders / await publish(store, b"body")).rename(root / "elsewhere")
        left = await eventually_counted(store, 0)
        await publish(store, b"body")

        assert left == 0
        assert (await store.describe_queue(ORDERS)).ready == 1


async def test_what_others_took_while_a_batch_was_delivered_is_not_counted_for_ever(
    root: Path, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has heard that it left before it notes that it came."""
    monkeypatch.setattr("mq.store.maintenance.RELIST_SECONDS", 0.02)
    loop, deliver = asyncio.get_running_loop(), Batch.deliver
    async with store_on(root) as store:
        assert await drain(store) == []

        def deliver_and_lose_one(batch: Batch) -> Rolled:
            rolled = deliver(batch)
            (orders / min(os.listdir(orders))).rename(root / "elsewhere")
            # This takes in what the system tells.
            asyncio.run_coroutine_threadsafe(store.describe_queue(ORDERS), loop).result()
            return rolled

        monkeypatch.setattr(Batch, "deliver", deliver_and_lose_one)
        await store.publish_batch(ORDERS, batch_of(*[draft_of(b"body")] * 200))

        assert await eventually_counted(store, 199) == 199
        assert len(await drain(store)) == 199


async def eventually_counted(store: Store, number: int) -> int:
    """Wait until that many are counted as ready."""

    async def is_counted() -> bool:
        return (await store.describe_queue(ORDERS)).ready == number

    await eventually(is_counted)
    return number


async def test_a_root_without_the_file_format_still_has_its_queues(root: Path) -> None:
    async with store_on(root) as store:
        await publish(store, b"body")
        (root / "format").unlink()

        for refused in (
            store.create_queue(ORDERS, {"ttl": "60"}),
            publish_as(store, b"body", message_id=MessageId("own")),
        ):
            with pytest.raises(StoreUnavailable, match=r"format is missing; .* fsck --repair"):
                await refused
        assert await store.purge(ORDERS) == 1
