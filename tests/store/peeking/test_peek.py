"""A peek where files cannot be opened."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from mq.errors import StoreUnavailable
from mq.lifecycle import State
from mq.names import MessageId
from mq.spool.message.seal import SEAL_ATTRIBUTE
from mq.store.store import Store
from tests.support.faults import WatchedFiles
from tests.support.stores import LONG_SECONDS, ORDERS, publish, publish_as, store_on

LARGE = 600_000


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ESTALE])
async def test_what_alone_cannot_be_opened_is_passed_over(root: Path, code: int) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        ids = [await publish(store, b"body") for _ in range(3)]
        files.fail("open_to_look", code=code)

        [found] = await store.peek(ORDERS, 1)

        assert found.message_id == ids[1]


@pytest.mark.parametrize("is_sealed", [True, False])
async def test_what_alone_cannot_be_read_is_passed_over(root: Path, is_sealed: bool) -> None:
    """A large body is read again for the answer, which all of them would be without."""
    files = WatchedFiles()
    async with store_on(root, files) as store:
        ids = [(await publish_as(store, b"." * LARGE)).message_id for _ in range(2)]
        broken = root / "queues" / ORDERS / ids[0]
        if not is_sealed:
            os.removexattr(broken, SEAL_ATTRIBUTE)
        inode = broken.stat().st_ino

        def read(fd: int, *_: object) -> None:
            if os.fstat(fd).st_ino == inode:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        files.before["read"] = read

        [found] = await store.peek(ORDERS, 2)

        found.close(files)
        assert found.message_id == ids[1]
        with pytest.raises(StoreUnavailable, match="Input/output error"):
            await store.peek_at(ORDERS, ids[0])
        assert not is_open(broken)


async def test_while_no_file_can_be_opened_the_store_is_unavailable(root: Path) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        ids = [await publish(store, b"body") for _ in range(3)]
        files.fail("open_to_look", code=errno.EMFILE, times=1000)

        with pytest.raises(StoreUnavailable):
            await store.peek(ORDERS, 2)

        files.before.clear()
        assert [each.message_id for each in await store.peek(ORDERS, 2)] == ids[:2]


def is_open(path: Path) -> bool:
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            if os.readlink(f"/proc/self/fd/{fd}") == str(path):
                return True
    return False


@pytest.mark.parametrize(
    ("delay", "look"),
    [
        (0.0, lambda store, _: store.peek(ORDERS, 1)),
        (0.0, lambda store, message_id: store.peek_at(ORDERS, message_id)),
        (LONG_SECONDS, lambda store, _: store.peek(ORDERS, 1, state=State.DELAYED)),
    ],
    ids=["ready", "by id", "hidden"],
)
async def test_a_look_during_which_a_sync_fails_leaves_no_file_open(
    disk: Path, delay: float, look: Callable[[Store, MessageId], Awaitable[object]]
) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        message_id = (await publish_as(store, b"." * LARGE, delay_seconds=delay)).message_id
        gate = files.hold_back("open_to_look")
        looking = asyncio.ensure_future(look(store, message_id))
        await gate.reached()
        files.fail("sync", "sync_file_system")
        with pytest.raises(StoreUnavailable):
            await publish(store, b"body")
        gate.open()

        with pytest.raises(StoreUnavailable):
            await looking
        place = f"delay/{ORDERS}:{message_id}" if delay else f"queues/{ORDERS}/{message_id}"
        assert not is_open(disk / place)
