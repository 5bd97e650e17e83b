"""Roots below HTTP: a spool as one process has it open, and the file systems it may meet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from mq.spool.folders import Spool
from mq.spool.root import open_root
from mq.store.store import Store
from tests.faults import OldFiles, WatchedFiles
from tests.stores import store_on


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
