"""A body that is too large for the event loop, on its way into a file."""

from __future__ import annotations

import asyncio
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mq.disk.files import Files
from mq.errors import StoreUnavailable
from mq.spool.message.trailer import pack_trailer
from mq.store.bodies import Upload
from mq.store.free_space import Floor
from tests.support.faults import WatchedFiles

PROPERTIES = {"x-meta-a": "1"}


class CountingWorkers(ThreadPoolExecutor):
    """Counts the calls that it is given."""

    calls = 0

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        self.calls += 1
        return super().submit(call, *arguments, **named)


class SlowFiles(Files):
    """A sync waits until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.synced: list[int] = []

    def sync(self, fd: int) -> None:
        self.synced.append(fd)
        self.begun.set()
        self.may_go_on.wait()
        super().sync(fd)


@pytest.fixture
def workers() -> Iterator[CountingWorkers]:
    with CountingWorkers(max_workers=2) as found:
        yield found


@pytest.fixture
def folder_fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.mark.parametrize("pieces", [[], [b"first", b"", b"second"]])
async def test_each_piece_takes_one_call_of_a_worker_and_the_end_none_of_its_own(
    workers: CountingWorkers, folder_fd: int, pieces: list[bytes]
) -> None:
    files = Files()
    body = b"".join(pieces) + b"last"
    async with _upload(files, folder_fd, workers) as upload:
        for piece in pieces:
            await upload.write(piece)
        draft = await upload.finish(b"last", "text/plain", PROPERTIES)

    trailer = pack_trailer(PROPERTIES)
    assert workers.calls == len(pieces) + 1
    assert files.read(draft.fd, 1000) == body + trailer
    assert (draft.length, draft.crc32, draft.trailer) == (len(body), zlib.crc32(body), trailer)
    files.close(draft.fd)


async def test_below_the_floor_no_file_is_made(workers: CountingWorkers, folder_fd: int) -> None:
    files, floor = WatchedFiles(), Floor(1 << 62, lambda: folder_fd)
    async with Upload(files, folder_fd, 0o600, workers, floor) as upload:
        with pytest.raises(StoreUnavailable, match="--min-free"):
            await upload.finish(b"body", None)

    assert files.calls["open_unnamed"] == 0


async def test_a_file_is_closed_once_no_worker_uses_it(
    workers: CountingWorkers, folder_fd: int
) -> None:
    files = SlowFiles()
    upload = _upload(files, folder_fd, workers)

    async def give_up() -> None:
        async with upload:
            await upload.finish(b"body", None)

    task = asyncio.create_task(give_up())
    await asyncio.to_thread(files.begun.wait)
    [fd] = files.synced
    task.cancel()
    await asyncio.wait([task])
    os.fstat(fd)

    files.may_go_on.set()
    while upload._running is not None:
        await asyncio.sleep(0.001)

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def _upload(files: Files, folder_fd: int, workers: CountingWorkers) -> Upload:
    floor = Floor(0, lambda: folder_fd)
    return Upload(files, folder_fd, 0o600, workers, floor)
