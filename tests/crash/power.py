"""A disk whose power can be cut, by the crash model of the design (section 3).

Changes of names, stamps and attributes are one ordered log, of which a cut keeps a prefix; syncing
any folder makes all of it so far durable. Data that was not synced is torn.
"""

from __future__ import annotations

import os
import random
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.faults import CHANGES, SYNCS, MortalFiles

Undo = Callable[[], object]


class Disk:
    """What has not reached the stable medium yet, and how to take it back."""

    def __init__(self, graveyard: Path) -> None:
        graveyard.mkdir()
        self.lock = threading.RLock()
        self._graveyard = graveyard
        self._buried = 0
        self._log: list[Undo] = []
        self._unsynced: dict[int, int] = {}

    def cut(self, kept: float) -> None:
        """Cut the power; that fraction of the changes since the last sync is kept. All processes
        that used the disk are dead already."""
        for undo in reversed(self._log[round(kept * len(self._log)) :]):
            undo()
        self._log.clear()
        for fd in self._unsynced.values():
            length = os.fstat(fd).st_size
            torn = random.choice([b"", bytes(length), bytes(length // 2)])
            os.ftruncate(fd, 0)
            os.pwrite(fd, torn, 0)
            os.close(fd)
        self._unsynced.clear()

    def close(self) -> None:
        for fd in self._unsynced.values():
            os.close(fd)

    def note(self, undo: Undo) -> None:
        self._log.append(undo)

    def note_data(self, fd: int) -> None:
        self._unsynced.setdefault(os.fstat(fd).st_ino, os.dup(fd))

    def note_sync(self, fd: int) -> None:
        """A file: its data. A folder: every change of names so far."""
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            self._log.clear()
        elif status.st_ino in self._unsynced:
            os.close(self._unsynced.pop(status.st_ino))

    def note_sync_of_all(self, _: int) -> None:
        self._log.clear()
        self.close()
        self._unsynced.clear()

    # How each change is taken back; asked before it is made.

    def undo_rename(self, source_fd: int, source: str, target_fd: int, target: str) -> Undo:
        return partial(os.rename, _path(target_fd, target), _path(source_fd, source))

    def undo_replace(self, source_fd: int, source: str, target_fd: int, target: str) -> Undo:
        back = self.undo_rename(source_fd, source, target_fd, target)
        try:
            replaced = self.undo_unlink(target_fd, target)
        except FileNotFoundError:
            return back
        return lambda: (back(), replaced())

    def undo_create(self, folder_fd: int, name: str, _: int) -> Undo:
        return partial(os.unlink, _path(folder_fd, name))

    def undo_link(self, _: int, folder_fd: int, name: str) -> Undo:
        return partial(os.unlink, _path(folder_fd, name))

    def undo_unlink(self, folder_fd: int, name: str) -> Undo:
        self._buried += 1
        grave = self._graveyard / str(self._buried)
        os.link(_path(folder_fd, name), grave, follow_symlinks=False)
        return partial(os.rename, grave, _path(folder_fd, name))

    def undo_make_folder(self, folder_fd: int | None, name: str, _: int) -> Undo:
        return partial(os.rmdir, _path(folder_fd, name))

    def undo_remove_folder(self, folder_fd: int, name: str) -> Undo:
        return partial(os.mkdir, _path(folder_fd, name), 0o700)

    def undo_set_attribute(self, fd: int, name: str, _: bytes) -> Undo:
        path = _path_of_file(fd)
        try:
            earlier = os.getxattr(fd, name)
        except OSError:
            return partial(_if_it_has_a_name, os.removexattr, path, name)
        return partial(_if_it_has_a_name, os.setxattr, path, name, earlier)

    def undo_stamp(self, fd: int, _: int) -> Undo:
        mtime_ns = os.fstat(fd).st_mtime_ns
        return partial(_if_it_has_a_name, _stamp, _path_of_file(fd), mtime_ns)


class PowerFiles(MortalFiles):
    """Files on such a disk."""

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self._disk = disk

    def _watched(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        if name not in CHANGES | SYNCS:
            return super()._watched(name, call, *arguments)
        disk = self._disk
        with disk.lock:
            undo = getattr(disk, f"undo_{name}", None)
            undone_by = undo(*arguments) if undo is not None else None
            result = super()._watched(name, call, *arguments)
            if undone_by is not None:
                disk.note(undone_by)
            elif name == "write":
                disk.note_data(arguments[0])
            elif name == "sync":
                disk.note_sync(arguments[0])
            elif name == "sync_file_system":
                disk.note_sync_of_all(arguments[0])
        return result


def _path(folder_fd: int | None, name: str) -> str:
    """Where a name is now; right again when all later changes are taken back."""
    if folder_fd is None:
        return name
    return os.path.join(os.readlink(f"/proc/self/fd/{folder_fd}"), name)


def _path_of_file(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


def _stamp(path: str, mtime_ns: int) -> None:
    os.utime(path, ns=(mtime_ns, mtime_ns))


def _if_it_has_a_name(undo: Callable[..., object], path: str, *arguments: object) -> None:
    """A file that never got one is gone with the power."""
    with suppress(FileNotFoundError):
        undo(path, *arguments)
