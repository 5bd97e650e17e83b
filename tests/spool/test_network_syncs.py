"""What a sync of everything does on a network file system, for each of several threads."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from mq.spool.network_files import NetworkFiles
from tests.support.faults import Gate


class SyncedFiles(NetworkFiles):
    """Notes what was synced, by inode. `before_rename` happens before a name is changed, and
    `before_sync` before a descriptor is synced."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.synced: list[int] = []
        self.fails = False
        self.before_rename: Callable[[], object] = lambda: None
        self.before_sync: Callable[[int], object] = lambda fd: None

    def sync(self, fd: int) -> None:
        self.before_sync(fd)
        if self.fails:
            raise OSError(errno.EIO, "no")
        super().sync(fd)
        self.synced.append(os.fstat(fd).st_ino)

    def _rename_errno(self, fd: int, name: str, other_fd: int, other: str, flag: int) -> int:
        self.before_rename()
        return super()._rename_errno(fd, name, other_fd, other, flag)


class LateLock:
    """A lock that another thread gets first: `first` is what that does under it."""

    def __init__(self, first: Callable[[], None]) -> None:
        self._first: Callable[[], None] | None = first
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        first, self._first = self._first, None
        if first is not None:
            first()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.fixture
def files(tmp_path: Path) -> SyncedFiles:
    return SyncedFiles(tmp_path)


@pytest.fixture
def folder(tmp_path: Path, files: SyncedFiles) -> Iterator[int]:
    (tmp_path / "one").write_text("one")
    fd = files.open_folder(None, str(tmp_path))
    yield fd
    files.close(fd)


def test_each_folder_and_file_that_was_changed_is_synced(
    tmp_path: Path, files: SyncedFiles, folder: int
) -> None:
    for number in range(100):  # more than are remembered
        (tmp_path / f"folder{number}").mkdir()
        fd = files.open_folder(folder, f"folder{number}")
        new = files.create(fd, "new", 0o600)
        files.write(new, b"new")
        files.close(new)
        files.rename(fd, "new", fd, "old")
        files.close(fd)
    files.unlink(folder, "one")

    files.sync_file_system(folder)

    changed = {path.stat().st_ino for path in (tmp_path, *tmp_path.glob("folder*"))}
    assert changed <= {*files.synced}
    assert {path.stat().st_ino for path in tmp_path.glob("folder*/old")} <= {*files.synced}


def test_a_failed_sync_of_a_closed_file_is_reported_once_to_each_descriptor(
    files: SyncedFiles, folder: int
) -> None:
    """Each thread has a descriptor of its own, and any of them may have written the file."""
    other = files.open_folder(folder, ".")
    new = files.create(folder, "new", 0o600)
    files.write(new, b"new")
    files.fails = True
    files.close(new)
    files.fails = False

    for fd in (folder, other):
        with pytest.raises(OSError, match="no"):
            files.sync_file_system(fd)
        files.sync_file_system(fd)
    later = files.open_folder(folder, ".")
    files.sync_file_system(later)

    files.close(later)
    files.close(other)


def test_a_file_that_is_open_is_left_to_its_owner(files: SyncedFiles, folder: int) -> None:
    """The kernel reports an error of its data once to its descriptor, and the owner must get it."""
    new = files.create(folder, "new", 0o600)
    files.write(new, b"new")

    files.sync_file_system(folder)

    assert os.fstat(new).st_ino not in files.synced
    files.close(new)


def test_what_is_closed_without_a_name_fails_nobody(files: SyncedFiles, folder: int) -> None:
    upload = files.open_unnamed(folder, 0o600)
    files.write(upload, b"a body whose client has gone")
    files.fails = True
    files.close(upload)
    files.fails = False

    files.sync_file_system(folder)


def test_a_name_is_noted_after_its_change(tmp_path: Path, files: SyncedFiles, folder: int) -> None:
    """Another thread may sync the folder just before."""
    other = files.open_folder(None, str(tmp_path.parent))
    files.before_rename = lambda: files.sync_file_system(other)
    files.rename(folder, "one", folder, "two")
    files.synced.clear()

    files.sync_file_system(other)

    assert tmp_path.stat().st_ino in files.synced
    files.close(other)


async def test_what_another_thread_is_syncing_is_waited_for(
    tmp_path: Path, files: SyncedFiles, folder: int
) -> None:
    """It has taken over what this thread has changed."""
    files.rename(folder, "one", folder, "two")
    first, second = (files.open_folder(None, str(tmp_path.parent)) for _ in range(2))
    gate = Gate()
    order: list[str] = []

    def come(fd: int) -> None:
        if os.fstat(fd).st_ino == tmp_path.stat().st_ino:
            gate.wait()
            order.append("what was changed")
        elif fd == second:
            order.append("the end of the second")

    files.before_sync = come
    with ThreadPoolExecutor(2) as threads:
        syncs = [threads.submit(files.sync_file_system, first)]
        await gate.reached()
        syncs.append(threads.submit(files.sync_file_system, second))
        wait(syncs, timeout=0.2)
        gate.open()

    assert order == ["what was changed", "the end of the second"]
    for sync, fd in zip(syncs, (first, second), strict=True):
        sync.result()
        files.close(fd)


def test_a_folder_that_is_one_too_many_may_be_synced_by_another_thread_first(
    tmp_path: Path, files: SyncedFiles, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_syncing", LateLock(lambda: files.sync_file_system(folder)))

    for number in range(100):  # more than are remembered
        (tmp_path / f"folder{number}").mkdir()
        fd = files.open_folder(folder, f"folder{number}")
        files.unlink(fd, "nothing")
        files.close(fd)
    files.sync_file_system(folder)

    changed = {path.stat().st_ino for path in tmp_path.glob("folder*")}
    assert changed <= {*files.synced}
