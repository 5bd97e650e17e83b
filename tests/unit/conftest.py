"""Roots below HTTP: a spool as one process has it open, and the file systems it may meet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mq.spool.folders import Spool
from mq.spool.root import open_root
from mq.store.store import Store
from tests.faults import OldFiles, WatchedFiles
from tests.stores import store_on
from tests.vsqs import Clock, OpenQueue
from vsqs.queue import Queue


@pytest.fixture
def orders(root: Path) -> Path:
    """The folder of the queue `orders`."""
    return root / "queues" / "orders"


@pytest.fixture
def open_spool(root: Path) -> Iterator[Callable[[WatchedFiles], Spool]]:
    """`open_spool(files)` opens the root as one more process would; closed with the test."""
    opened: list[Spool] = []

    def open_one(files: WatchedFiles) -> Spool:
        opened.append(open_root(root, 0o700, files)[0])
        return opened[-1]

    yield open_one
    for spool in opened:
        spool.close()


@pytest.fixture(params=[WatchedFiles, OldFiles])
def files(request: pytest.FixtureRequest) -> WatchedFiles:
    """Both kinds of file system: with RENAME_NOREPLACE and unnamed files, and without."""
    made = request.param()
    assert isinstance(made, WatchedFiles)
    return made


@pytest.fixture
def spool(open_spool: Callable[[WatchedFiles], Spool], files: WatchedFiles) -> Spool:
    """A root with one queue, `orders`."""
    opened = open_spool(files)
    (opened.root / "queues" / "orders").mkdir()
    return opened


@pytest.fixture
async def store(root: Path, files: WatchedFiles) -> AsyncIterator[Store]:
    async with store_on(root, files) as opened:
        yield opened


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as opened:
        yield opened


# VSQS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a queue that needs no server."""
    return tmp_path / "queue"


@pytest.fixture
def queue(folder: Path) -> Iterator[Queue]:
    with Queue(folder) as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_queue(folder: Path) -> Iterator[OpenQueue]:
    """Several may be open on the one folder, as in several processes."""
    opened: list[Queue] = []

    def open_one(**settings: object) -> Queue:
        opened.append(Queue(folder, **settings))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for queue in opened:
        queue.close()
