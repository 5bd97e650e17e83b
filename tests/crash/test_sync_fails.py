"""A sync that fails: no false success, nothing half done, and service again without help."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from mq.errors import QueueNotFound, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.store.store import Store
from tests.support.faults import SYNCS, Gate, SuspiciousFiles
from tests.support.messages import names_in, seal_of, write_message
from tests.support.redelivery import move_due
from tests.support.stores import (
    LONG_SECONDS,
    ORDERS,
    body_of,
    drain,
    eventually,
    publish,
    receive,
    store_on,
)

RETURNS = QueueName("returns")


@pytest.fixture
def files() -> SuspiciousFiles:
    return SuspiciousFiles()


@pytest.fixture
async def store(disk: Path, files: SuspiciousFiles) -> AsyncIterator[Store]:
    async with store_on(disk, files) as opened:
        yield opened
    assert files.retried == []


def _break_disk(files: SuspiciousFiles, code: int = errno.EIO) -> None:
    files.fail(*SYNCS, code=code, times=1_000_000)


async def _refused(call: Awaitable[object]) -> None:
    with pytest.raises(StoreUnavailable) as refusal:
        await call
    assert refusal.value.retry_after_seconds >= 1


async def _mend_disk(store: Store, files: SuspiciousFiles) -> None:
    """The disk works again; wait until the store has found that out."""
    for name in SYNCS:
        files.before.pop(name, None)

    async def is_back() -> bool:
        with suppress(StoreUnavailable):
            await store.create_queue(RETURNS)
            return True
        return False

    await eventually(is_back)


@pytest.mark.parametrize("folder", [Folder.CORRUPT, Folder.SPARK])
async def test_a_store_comes_back_though_a_person_moved_a_folder_away(
    disk: Path, files: SuspiciousFiles, store: Store, folder: Folder
) -> None:
    """One that was made when it was needed, and is made again."""
    spool = store.health._work.spool
    spool.fd(folder)
    (disk / folder).rename(disk / "elsewhere")

    _break_disk(files)
    await _refused(publish(store, b"body"))
    await _mend_disk(store, files)

    await publish(store, b"body")
    assert (await receive(store)).body == b"body"
    spool.fd(folder)
    assert (disk / folder).is_dir()


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("count", [1, 20])
async def test_publishes_that_were_not_synced_fail_and_leave_nothing(
    disk: Path, store: Store, files: SuspiciousFiles, code: int, count: int
) -> None:
    _break_disk(files, code)
    await asyncio.gather(*(_refused(publish(store, b"body")) for _ in range(count)))

    assert os.listdir(disk / "new") == names_in(disk / "queues" / "orders") == []

    await _mend_disk(store, files)
    published = await asyncio.gather(*(publish(store, b"body") for _ in range(count)))
    assert await drain(store) == sorted(published)


async def test_everything_is_refused_until_the_store_is_back_by_itself(
    store: Store, files: SuspiciousFiles
) -> None:
    message_id = await publish(store, b"before")
    _break_disk(files)
    await _refused(publish(store, b"lost"))

    requests: list[Callable[[], Awaitable[object]]] = [
        lambda: publish(store, b"meanwhile"),
        lambda: store.receive(ORDERS, LONG_SECONDS),
        lambda: store.remove(ORDERS, message_id),
        lambda: store.create_queue(RETURNS),
        lambda: store.delete_queue(ORDERS),
    ]
    for request in requests:
        await _refused(request())

    await _mend_disk(store, files)
    assert await drain(store) == [message_id]


async def test_store_comes_back_though_the_first_tries_fail(
    store: Store, files: SuspiciousFiles
) -> None:
    files.fail(*SYNCS, times=4)
    await _refused(publish(store, b"lost"))

    async def is_published() -> bool:
        with suppress(StoreUnavailable):
            await publish(store, b"after")
            return True
        return False

    await eventually(is_published)
    assert len(files.failed) == 4


async def test_message_whose_lease_was_not_synced_is_not_lost(
    disk: Path, store: Store, files: SuspiciousFiles
) -> None:
    message_id = await publish(store, b"body")
    _break_disk(files)
    await _refused(store.receive(ORDERS, 0.05))
    await _mend_disk(store, files)

    async def is_back() -> bool:
        move_due(disk)
        return await drain(store) == [message_id]

    await eventually(is_back)


async def test_removal_that_was_not_synced_can_be_asked_for_again(
    disk: Path, store: Store, files: SuspiciousFiles
) -> None:
    message_id = await publish(store, b"body")
    await receive(store)
    _break_disk(files)
    await _refused(store.remove(ORDERS, message_id))
    await _mend_disk(store, files)

    await store.remove(ORDERS, message_id)

    assert names_in(disk / "remove") == [f"orders:{message_id}"]
    assert await drain(store) == []


async def test_queue_whose_making_was_not_synced_stays_for_those_who_were_answered(
    disk: Path, store: Store, files: SuspiciousFiles
) -> None:
    """Another server is told that it exists, before the sync of the one that made it fails."""
    other = QueueName("other")
    async with store_on(disk) as neighbour:
        gate = Gate()

        def fail_late(*_: object) -> None:
            gate.wait()
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        files.before |= dict.fromkeys(SYNCS, fail_late)
        making = asyncio.create_task(store.create_queue(other))
        await gate.reached()
        assert not await neighbour.create_queue(other)
        gate.open()
        await _refused(making)

        await publish(neighbour, b"body", other)
        await _mend_disk(store, files)
        assert not await store.create_queue(other)


async def test_queue_whose_deletion_was_not_synced_is_whole_or_gone(
    disk: Path, store: Store, files: SuspiciousFiles
) -> None:
    await publish(store, b"body")
    _break_disk(files)
    await _refused(store.delete_queue(ORDERS))
    await _mend_disk(store, files)

    with pytest.raises(QueueNotFound):
        await publish(store, b"body")
    assert not list((disk / "remove").glob("*:.deleting"))
    assert await store.create_queue(ORDERS)
    assert await drain(store) == []


async def test_store_that_comes_back_sweeps_first(
    disk: Path, store: Store, files: SuspiciousFiles
) -> None:
    _break_disk(files)
    await _refused(publish(store, b"lost"))
    # Torn first: a try to come back may sweep between the two, and makes `corrupt` then.
    for name, body in (("orders:torn", b"bo"), ("orders:leftover", b"body")):
        write_message(disk / name, body, seal=seal_of(b"body")).rename(disk / "new" / name)

    await _mend_disk(store, files)

    deadline = time.monotonic() + 20
    while names_in(disk / "queues" / "orders") != ["leftover"] and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert names_in(disk / "queues" / "orders") == ["leftover"]
    assert names_in(disk / "corrupt") == ["orders:torn"]


async def test_large_body_that_could_not_be_synced_leaves_nothing(
    disk: Path, store: Store, files: SuspiciousFiles
) -> None:
    _break_disk(files)
    await _refused(publish(store, bytes(600_000)))

    assert os.listdir(disk / "new") == []
    await _mend_disk(store, files)
    body = os.urandom(600_000)
    await publish(store, body)
    assert await body_of(store, await receive(store)) == body


@pytest.mark.parametrize("call", ["write", "link", "open_unnamed", "set_attribute"])
@pytest.mark.parametrize("size", [10, 600_000])
async def test_publish_that_the_disk_has_no_room_for_fails_alone(
    disk: Path, store: Store, files: SuspiciousFiles, call: str, size: int
) -> None:
    files.fail(call, code=errno.ENOSPC)
    await _refused(publish(store, bytes(size)))

    assert os.listdir(disk / "new") == []
    message_id = await publish(store, b"next")
    received = await receive(store)
    assert received.message_id == message_id
    await store.remove(ORDERS, message_id, frozenset({received.lease}))


@pytest.mark.parametrize("call", ["set_attribute", "stamp", "rename", "open_message", "read"])
async def test_receive_that_fails_leaves_the_message_as_it_was(
    store: Store, files: SuspiciousFiles, call: str
) -> None:
    message_id = await publish(store, b"body")
    first = await receive(store)
    await store.put_back(first)
    files.fail(call, code=errno.ENOSPC)

    await _refused(store.receive(ORDERS, LONG_SECONDS))

    received = await receive(store)
    assert (received.message_id, received.receive_count) == (message_id, 1)
