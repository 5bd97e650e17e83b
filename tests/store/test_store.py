"""The store: leases, races with other processes, counts; what HTTP answers with."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.errors import LeaseMismatch, MessageNotFound, QueueNotFound, StoreUnavailable
from mq.names import MessageId, QueueName
from mq.spool.message.held import Held, hold
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper, Swept
from mq.store.store import Store
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.messages import DAY_NS, names_in, read_seal, write_message
from tests.support.stores import (
    ORDERS,
    drain,
    eventually,
    publish,
    receive,
    store_on,
)


@pytest.fixture
def files() -> WatchedFiles:
    return WatchedFiles()


def _hold(folder: Path, name: str) -> Held:
    """Hold a message as another process would."""
    files = Files()
    fd = files.open_folder(None, str(folder))
    held = hold(files, fd, name)
    files.close(fd)
    assert isinstance(held, Held)
    return held


# Leases


async def test_lease_count_and_stamp_are_in_the_file(root: Path, store: Store) -> None:
    message_id = await publish(store, b"body")

    received = await receive(store)

    path = root / "delay" / f"orders:{message_id}"
    assert read_seal(path)[3:5] == (received.receive_count, received.lease)
    assert path.stat().st_mtime_ns == received.visible_ns
    assert received.published_ns == read_seal(path).published_ns


async def test_stale_lease_removes_nothing(store: Store) -> None:
    message_id = await publish(store, b"body")
    first = await receive(store)
    await store.put_back(first)
    second = await receive(store)

    for stale in (frozenset({first.lease}), frozenset({0}), frozenset[int]()):
        with pytest.raises(LeaseMismatch):
            await store.remove(ORDERS, message_id, stale)

    await store.remove(ORDERS, message_id, frozenset({first.lease, second.lease}))


async def test_removing_again_is_fine_and_removing_nothing_is_not(store: Store) -> None:
    message_id = await publish(store, b"body")

    await store.remove(ORDERS, message_id)
    await store.remove(ORDERS, message_id)

    with pytest.raises(MessageNotFound):
        await store.remove(ORDERS, MessageId("unknown"))
    with pytest.raises(QueueNotFound):
        await store.remove(QueueName("nowhere"), message_id)
    assert await drain(store) == []


# Races with other processes


async def test_message_that_another_holds_is_passed_over(store: Store, orders: Path) -> None:
    published = [await publish(store, b"body") for _ in range(3)]

    with _hold(orders, published[0]):
        assert (await receive(store)).message_id == published[1]

    assert await drain(store) == [published[0], published[2]]


async def test_guarded_removal_of_a_message_that_another_holds_is_refused(
    root: Path, store: Store
) -> None:
    message_id = await publish(store, b"body")
    received = await receive(store)
    name = f"orders:{message_id}"

    with (
        _hold(root / "delay", name),
        pytest.raises(StoreUnavailable, match="held by another process"),
    ):
        await store.remove(ORDERS, message_id, frozenset({received.lease}))

    assert names_in(root / "delay") == [name]


async def test_plain_removal_waits_for_no_lock(root: Path, store: Store, orders: Path) -> None:
    message_id = await publish(store, b"body")

    with _hold(orders, message_id):
        await store.remove(ORDERS, message_id)

    assert names_in(root / "remove") == [f"orders:{message_id}"]


async def test_publish_that_waits_for_its_barrier_is_not_swept(
    disk: Path, store: Store, files: WatchedFiles, open_spool: Callable[[WatchedFiles], Spool]
) -> None:
    gate = files.hold_back(*SYNCS)
    publishing = asyncio.create_task(publish(store, b"body"))
    await gate.reached()

    swept = Sweeper(open_spool(WatchedFiles()), print).sweep()
    gate.open()

    assert swept == Swept()
    assert await drain(store) == [await publishing]


async def test_publish_to_a_queue_that_another_process_deletes_meanwhile_is_refused(
    disk: Path, store: Store, files: WatchedFiles, orders: Path
) -> None:
    files.before["sync"] = lambda *_: orders.exists() and orders.rename(disk / "remove" / "gone")

    with pytest.raises(QueueNotFound):
        await publish(store, b"body")

    assert os.listdir(disk / "new") == []


async def test_message_that_could_not_be_delivered_at_once_is_swept_in(
    root: Path, store: Store, files: WatchedFiles
) -> None:
    await publish(store, b"before")
    files.fail("rename", code=errno.EMFILE)

    message_id = await publish(store, b"body")

    async def is_delivered() -> bool:
        return message_id in await drain(store)

    await eventually(is_delivered)


@pytest.mark.parametrize(
    "place", ["new/gone:{}", "delay/orders:{}", "remove/orders:{}", "queues/orders/{}"]
)
async def test_new_ids_stand_above_every_id_in_the_root(root: Path, place: str) -> None:
    async with store_on(root):
        pass
    ahead = f"{(time.time_ns() + DAY_NS // 2) // 1_000_000:012x}"
    found = f"{ahead[:8]}-{ahead[8:]}-7fff-bfff-ffffffffffff"
    write_message(root / place.format(found))

    async with store_on(root) as store:
        assert await publish(store, b"body") > found


# Counts and queues


async def test_queue_is_described_as_it_is(root: Path, store: Store) -> None:
    for _ in range(5):
        await publish(store, b"body")
    await receive(store)
    await store.remove(ORDERS, (await receive(store)).message_id)
    for name in ("orders2:1", "orders:my:notes"):
        write_message(root / "delay" / name)

    info = await store.describe_queue(ORDERS)

    assert (info.queue, info.ready, info.leased, info.delayed) == (ORDERS, 3, 1, 0)
    assert info.oldest_age_seconds is not None
    assert 0 <= info.oldest_age_seconds < 60
    with pytest.raises(QueueNotFound):
        await store.describe_queue(QueueName("nowhere"))


async def test_plain_file_among_the_queues_is_no_queue(root: Path, store: Store) -> None:
    write_message(root / "queues" / "plain")

    with pytest.raises(QueueNotFound):
        await publish(store, b"body", QueueName("plain"))
