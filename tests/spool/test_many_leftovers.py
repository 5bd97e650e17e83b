"""Many leftovers are swept several at a time, each as one alone would be."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.lifecycle import Folder
from mq.spool.spool import Spool
from mq.spool.sweep import FEW_LEFTOVERS, Sweeper, Swept
from tests.support.faults import WatchedFiles, raising
from tests.support.messages import names_in, seal_of, write_message

MANY = FEW_LEFTOVERS + 40


@pytest.fixture
def files() -> WatchedFiles:
    """Those of a file system on which leftovers are copied."""
    return WatchedFiles()


@pytest.fixture
def leftovers(spool: Spool, orders: Path) -> list[str]:
    names = [f"{number:03}" for number in range(MANY)]
    for name in names:
        write_message(spool.root / "new" / f"orders:{name}", b"body", seal=seal_of(b"body"))
    return names


class SyncsTogether:
    """Lets a sync wait for another one, once the first leftovers are delivered."""

    def __init__(self, files: WatchedFiles) -> None:
        self._files, self._alone = files, files.calls["sync"] + 2 * FEW_LEFTOVERS
        self._both = threading.Barrier(2, timeout=10)
        self.were = False

    def __call__(self, *_: object) -> None:
        if self.were or self._files.calls["sync"] <= self._alone:
            return
        try:
            self._both.wait()
            self.were = True
        except threading.BrokenBarrierError:
            pass


def test_syncs_of_many_leftovers_are_under_way_together(
    spool: Spool, files: WatchedFiles, orders: Path, leftovers: list[str]
) -> None:
    together = files.before["sync"] = SyncsTogether(files)

    assert Sweeper(spool, print).sweep() == Swept(delivered=MANY)

    assert together.were
    assert names_in(orders) == leftovers
    assert os.listdir(spool.root / "new") == []


def test_one_that_cannot_be_copied_keeps_no_other_back(
    spool: Spool, files: WatchedFiles, orders: Path, leftovers: list[str]
) -> None:
    failed: list[int] = []
    alone = files.calls["sync"] + 2 * FEW_LEFTOVERS

    def fail(*_: object) -> None:
        if files.calls["sync"] > alone and not failed:
            failed.append(1)
            raise OSError(5, "Input/output error")

    files.before["sync"] = fail
    sweeper = Sweeper(spool, lambda *_: None)

    assert sweeper.sweep() == Swept(delivered=MANY - 1)
    assert sweeper.was_hindered
    assert len(sweeper.uncopied) == 1
    assert sweeper.sweep() == Swept(delivered=1)
    assert not sweeper.was_hindered
    assert names_in(orders) == leftovers


def test_one_that_the_disk_cannot_look_at_keeps_no_other_back(
    spool: Spool, files: WatchedFiles, orders: Path, leftovers: list[str]
) -> None:
    broken = f"orders:{leftovers[-1]}"

    def look(folder_fd: int, name: str) -> None:
        if name == broken:
            raising(errno.EIO)()

    files.before["status_of"] = look
    left: list[str] = []
    sweeper = Sweeper(spool, lambda name, why: left.append(name))

    assert sweeper.sweep() == Swept(delivered=MANY - 1)

    assert names_in(orders) == leftovers[:-1]
    assert sweeper.was_hindered
    assert left == [f"new/{broken}"]


def test_where_there_is_little_room_copies_are_made_one_after_the_other(
    spool: Spool, files: WatchedFiles, leftovers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way: list[int] = []
    most: list[int] = []
    measured = os.fstatvfs(spool.fd(Folder.NEW))

    def count(call: Callable[[int], None]) -> Callable[[int], None]:
        def sync(fd: int) -> None:
            under_way.append(fd)
            most.append(len(under_way))
            call(fd)
            under_way.remove(fd)

        return sync

    full = os.statvfs_result((*measured[:4], 0, *measured[5:]))
    monkeypatch.setattr(os, "fstatvfs", lambda fd: full)
    monkeypatch.setattr(os, "fsync", count(os.fsync))

    assert Sweeper(spool, print).sweep() == Swept(delivered=MANY)
    assert max(most) == 1
