"""A descriptor belongs to the operation that uses it: it is closed once, when the operation has
ended, however it ends and even if nobody waits for it."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mq.commit.group import GroupCommitter
from mq.errors import StoreUnavailable
from mq.names import MessageId
from mq.spool.spool import Spool
from mq.store.publishing import twins
from mq.store.store import Store
from tests.support.descriptors import open_paths
from tests.support.faults import Gate, WatchedFiles, raising
from tests.support.messages import write_message
from tests.support.stores import (
    LONG_SECONDS,
    ORDERS,
    body_of,
    eventually,
    publish,
    publish_as,
    receive,
    store_on,
)

LARGE = 600_000


def open_files(store: Store) -> Counter[str]:
    """What this process has open below the root, and how often."""
    below = f"{store._work.spool.root}/"
    found = Counter(path for path in open_paths() if path.startswith(below))
    assert found, "its folders are open"
    return found


async def no_more_is_open(store: Store, before: Counter[str]) -> None:
    """Wait until nothing is open that was not open before. What the server does by itself may open
    a folder at any moment, and closes it."""

    async def is_let_go() -> bool:
        return not open_files(store) - before

    await eventually(is_let_go)


@pytest.fixture
def files() -> WatchedFiles:
    return WatchedFiles()


@pytest.fixture
async def store(disk: Path, files: WatchedFiles) -> AsyncIterator[Store]:
    async with store_on(disk, files) as opened:
        await publish(opened, b"the first")
        await receive(opened)
        yield opened


def stall(files: WatchedFiles) -> Gate:
    """The committer's syncs wait; those of workers go on."""
    gate = Gate()

    def wait(*_: Any) -> None:
        if threading.current_thread().name == "committer":
            gate.wait()

    files.before |= {"sync": wait, "sync_file_system": wait}
    return gate


async def is_pending(store: Store) -> None:
    """Wait until a publish waits behind the batch that stalls."""

    async def waits() -> bool:
        committer = store._committer
        assert isinstance(committer, GroupCommitter)
        return committer._arrivals.has_turn()

    await eventually(waits)


@pytest.mark.parametrize("message_id", [None, MessageId("own")])
@pytest.mark.parametrize("delay_seconds", [0, 0.001])
@pytest.mark.parametrize("times", [1, 2])
async def test_a_publish_that_is_cut_off_during_a_stall_seals_its_own_body(
    store: Store,
    files: WatchedFiles,
    message_id: MessageId | None,
    delay_seconds: float,
    times: int,
) -> None:
    """The number of its descriptor is not given to the next upload while it still waits."""
    gate = stall(files)
    first = asyncio.create_task(publish(store, b"small"))
    await gate.reached()
    cut_off = asyncio.create_task(
        publish_as(store, b"a" * LARGE, message_id=message_id, delay_seconds=delay_seconds)
    )
    await is_pending(store)
    for _ in range(times):
        cut_off.cancel()
        await asyncio.sleep(0)
    await asyncio.wait({cut_off})

    async with store.open_upload() as upload:
        await upload.write(b"b" * LARGE)
        gate.open()
        await first

        async def is_in_place() -> bool:
            folders = ("queues/orders", "delay")
            return sum(len(os.listdir(store._work.spool.root / each)) for each in folders) == 3

        await eventually(is_in_place)
        bodies = set()
        for received in await store.receive_many(ORDERS, 10, LONG_SECONDS):
            bodies.add(await body_of(store, received))

    assert bodies == {b"small", b"a" * LARGE} or (delay_seconds and bodies == {b"small"})
    assert not (store._work.spool.root / "corrupt").exists()


async def test_a_publish_that_is_cut_off_leaves_no_descriptor(
    store: Store, files: WatchedFiles
) -> None:
    before = open_files(store)
    gate = stall(files)
    tasks = [asyncio.create_task(publish(store, b"b" * size)) for size in (1, LARGE, LARGE)]
    await gate.reached()
    await is_pending(store)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    gate.open()
    await store._publisher.close()

    await no_more_is_open(store, before)


async def test_a_failed_sync_of_large_bodies_leaves_no_descriptor(
    store: Store, files: WatchedFiles
) -> None:
    before = open_files(store)
    files.fail("sync", "sync_file_system", times=1)
    with pytest.raises(StoreUnavailable):
        await publish(store, b"b" * LARGE)

    async def is_well_again() -> bool:
        return store._committer.failure is None

    await eventually(is_well_again)
    await no_more_is_open(store, before)


Read = Callable[[Store], Awaitable[Any]]


async def _receive_many(store: Store) -> list[Any]:
    return list(await store.receive_many(ORDERS, 5, LONG_SECONDS))


async def _peek_many(store: Store) -> list[Any]:
    return list(await store.peek(ORDERS, 5))


@pytest.mark.parametrize("read", [_receive_many, _peek_many])
@pytest.mark.parametrize("good", [0, 1, 4])
async def test_a_body_that_cannot_be_read_leaves_none_of_the_others_open(
    store: Store, files: WatchedFiles, read: Read, good: int
) -> None:
    for _ in range(5):
        await publish(store, b"b" * LARGE)
    before = open_files(store)
    messages = await read(store)
    assert len(messages) == 5
    left = [None] * good

    def fail(*_: Any) -> None:
        if not left:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        left.pop()

    files.before["read"] = fail
    with pytest.raises(StoreUnavailable):
        await store.read_bodies(messages, list)

    await no_more_is_open(store, before)


async def test_what_is_made_of_the_bodies_may_fail(store: Store) -> None:
    await publish(store, b"b" * LARGE)
    before = open_files(store)

    def fail(bodies: Iterable[bytes]) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        await store.read_bodies(await _peek_many(store), fail)

    await no_more_is_open(store, before)


async def _read(store: Store) -> None:
    await store.read_bodies(await _receive_many(store), list)


async def _peek_at(store: Store) -> None:
    (peeked,) = await store.peek(ORDERS, 1)
    peeked.close(store._work.files)
    await store.peek_at(ORDERS, peeked.message_id)


async def _upload(store: Store) -> None:
    async with store.open_upload() as upload:
        await upload.write(b"b" * LARGE)
        await upload.finish(b"", None)
        raise AssertionError


@pytest.mark.parametrize(
    ("use", "call"),
    [
        (_read, "read"),
        (_peek_many, "read"),
        (_peek_at, "read"),
        (_upload, "open_unnamed"),
        (_upload, "write"),
        (_upload, "sync"),
    ],
)
async def test_who_is_cancelled_while_a_worker_is_at_work_leaves_no_descriptor(
    store: Store, files: WatchedFiles, use: Read, call: str
) -> None:
    await publish(store, b"b" * LARGE)
    before = open_files(store)
    gate = files.hold_back(call)
    task = asyncio.ensure_future(use(store))
    await gate.reached()
    task.cancel()
    await asyncio.wait({task})
    gate.open()

    await no_more_is_open(store, before)


async def test_who_is_cancelled_before_a_worker_is_free_leaves_no_descriptor(
    disk: Path, files: WatchedFiles
) -> None:
    async with store_on(disk, files, workers=1) as store:
        await publish(store, b"b" * LARGE)
        messages = await _receive_many(store)
        gate = files.hold_back("open_unnamed")
        uploading = asyncio.create_task(_upload(store))
        await gate.reached()
        held = open_files(store)
        reading = asyncio.create_task(store.read_bodies(messages, list))
        await asyncio.sleep(0)
        reading.cancel()
        uploading.cancel()
        await asyncio.wait({reading, uploading})
        gate.open()

        async def is_let_go() -> bool:
            return open_files(store) < held

        await eventually(is_let_go)


def test_own_id_whose_message_has_no_status_leaves_nothing_open(
    spool: Spool, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_message(orders / "1")
    spool.queues.open(ORDERS)
    before = os.listdir("/proc/self/fd")

    with monkeypatch.context() as failing, suppress(OSError):
        failing.setattr(os, "fstat", raising(errno.EIO))
        twins._open(spool, "queues/orders/1")

    assert os.listdir("/proc/self/fd") == before
