"""A double of Files: performs each call on a real folder, and notes it on a Disk.

Several actors may share one Disk; each has its own Files, as each process has.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import NamedTuple

from mq.disk.files import Files
from mq.disk.libc import WHOLE
from tests.crash.enumeration.disk import (
    ROOT,
    Attributed,
    Exchanged,
    Named,
    RecordedDisk,
    Renamed,
    Stamped,
    Synced,
    SyncFailed,
    Unnamed,
    Wrote,
    WroteOut,
)


class Abilities(NamedTuple):
    """What the file system can do."""

    attributes: bool = True
    renames_without_replacing: bool = True
    unnamed_files: bool = True
    data_log: bool = False


MODERN = Abilities()
EXT4 = Abilities(data_log=True)
PLAIN = Abilities(attributes=False)
REPLACING = Abilities(renames_without_replacing=False)
OLD = Abilities(renames_without_replacing=False, unnamed_files=False)


class RecordedFiles(Files):
    """Files on a disk whose power may be cut. `before` is called before each call that changes,
    syncs or locks, with its name; another actor may step in there."""

    def __init__(self, disk: RecordedDisk, abilities: Abilities = MODERN) -> None:
        super().__init__()
        self.disk = disk
        self.abilities = abilities
        self.before: Callable[[str], None] | None = None
        self.calls: list[str] = []
        self.failing_syncs = 0
        self.renames_without_replacing = abilities.renames_without_replacing
        self.has_unnamed_files = abilities.unnamed_files
        self._opened_after: dict[int, int] = {}

    def _step(self, call: str) -> None:
        if self.before is not None:
            self.before(call)
        self.calls.append(call)

    # Names

    def rename(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        self._step("rename")
        if not self.renames_without_replacing:
            super().rename(source_fd, source, target_fd, target)
            return
        with self.disk.lock:
            super().rename(source_fd, source, target_fd, target)
            self._note_rename(source_fd, source, target_fd, target)

    def _note_rename(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        tree = self.disk.tree
        old = tree.resolve(self._folder(source_fd), source)
        self.disk.note(Renamed(*old, *tree.resolve(self._folder(target_fd), target)))

    def exchange(self, folder_fd: int, name: str, other_fd: int, other: str) -> None:
        self._step("exchange")
        tree = self.disk.tree
        with self.disk.lock:
            super().exchange(folder_fd, name, other_fd, other)
            one = tree.resolve(self._folder(folder_fd), name)
            self.disk.note(Exchanged(*one, *tree.resolve(self._folder(other_fd), other)))

    def _link_name(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        tree = self.disk.tree
        with self.disk.lock:
            super()._link_name(source_fd, source, target_fd, target)
            inode = tree.names[tree.resolve(self._folder(source_fd), source)]
            self.disk.note(Named(*tree.resolve(self._folder(target_fd), target), inode))

    def replace(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        with self.disk.lock:
            super().replace(source_fd, source, target_fd, target)
            self._note_rename(source_fd, source, target_fd, target)

    def unlink(self, folder_fd: int, name: str) -> None:
        self._step("unlink")
        with self.disk.lock:
            super().unlink(folder_fd, name)
            self.disk.note(Unnamed(*self.disk.tree.resolve(self._folder(folder_fd), name)))

    def make_folder(self, folder_fd: int | None, name: str, mode: int) -> None:
        self._step("make_folder")
        with self.disk.lock:
            super().make_folder(folder_fd, name, mode)
            place = self._place(folder_fd, name)
            if place is not None:
                status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
                self.disk.note(Named(*place, self.disk.add_inode(status)))

    def remove_folder(self, folder_fd: int, name: str) -> None:
        self._step("remove_folder")
        with self.disk.lock:
            super().remove_folder(folder_fd, name)
            self.disk.note(Unnamed(*self.disk.tree.resolve(self._folder(folder_fd), name)))

    # Files

    def open_unnamed(self, folder_fd: int, mode: int) -> int:
        self._step("open_unnamed")
        fd = super().open_unnamed(folder_fd, mode)
        if fd not in self._temporary_names:
            self.disk.add_inode(os.fstat(fd))
        return self._opened(fd)

    def create(self, folder_fd: int, name: str, mode: int) -> int:
        with self.disk.lock:
            fd = super().create(folder_fd, name, mode)
            inode = self.disk.add_inode(os.fstat(fd))
            self.disk.note(Named(self._folder(folder_fd), name, inode))
        return fd

    def link(self, fd: int, folder_fd: int, name: str) -> None:
        self._step("link")
        if fd in self._temporary_names:
            super().link(fd, folder_fd, name)
            return
        with self.disk.lock:
            super().link(fd, folder_fd, name)
            place = self.disk.tree.resolve(self._folder(folder_fd), name)
            self.disk.note(Named(*place, self._inode(fd)))

    def _opened(self, fd: int) -> int:
        self._opened_after[fd] = self.disk.failures
        return fd

    def close(self, fd: int) -> None:
        with self.disk.lock:
            folder_fd, name = self._temporary_names.get(fd, (-1, ""))
            place = (self._folder(folder_fd), name) if name else None
            super().close(fd)
            if place is not None and place in self.disk.tree.names:
                self.disk.note(Unnamed(*place))
        self._opened_after.pop(fd, None)

    def open_folder(self, folder_fd: int | None, name: str) -> int:
        return self._opened(super().open_folder(folder_fd, name))

    def open_message(self, folder_fd: int, name: str) -> int:
        return self._opened(super().open_message(folder_fd, name))

    def replace_fd(self, new_fd: int, fd: int) -> None:
        self._opened_after[fd] = self._opened_after.pop(new_fd)
        super().replace_fd(new_fd, fd)

    def write(self, fd: int, data: bytes | bytearray | memoryview) -> None:
        """What arrived in the file counts, whatever the caller meant to write."""
        self._step("write")
        with self.disk.lock:
            at = os.lseek(fd, 0, os.SEEK_CUR)
            super().write(fd, data)
            written = os.pread(fd, os.lseek(fd, 0, os.SEEK_CUR) - at, at)
            self.disk.note(Wrote(self._inode(fd), written, at))

    # Attributes

    def set_attribute(self, fd: int, name: str, value: bytes) -> None:
        if not self.abilities.attributes:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        self._step("set_attribute")
        with self.disk.lock:
            super().set_attribute(fd, name, value)
            self.disk.note(Attributed(self._inode(fd), name, value))

    def attribute(self, fd: int | str, name: str) -> bytes | None:
        return super().attribute(fd, name) if self.abilities.attributes else None

    def stamp(self, fd: int, mtime_ns: int) -> None:
        self._step("stamp")
        with self.disk.lock:
            super().stamp(fd, mtime_ns)
            self.disk.note(Stamped(self._inode(fd), mtime_ns))

    def lock(self, fd: int) -> bool:
        self._step("lock")
        return super().lock(fd)

    def lock_shared(self, fd: int) -> bool:
        self._step("lock_shared")
        return super().lock_shared(fd)

    def lock_byte(self, fd: int, offset: int) -> bool:
        self._step("lock_byte")
        return super().lock_byte(fd, offset)

    def unlock(self, fd: int) -> None:
        self._step("unlock")
        super().unlock(fd)

    # Stable media

    def sync(self, fd: int) -> None:
        """A descriptor that was open when a sync failed makes nothing durable any more: its next
        fsync succeeds without the data."""
        self._step("sync")
        self._fail_sync(fd)
        with self.disk.lock:
            super().sync(fd)
            inode = self._inode(fd)
            if self._opened_after.get(fd, 0) == self.disk.failures:
                self.disk.note(Synced(inode))

    def write_out(self, fd: int, flags: int) -> None:
        self._step("write_out")
        if flags != WHOLE:
            return
        self._fail_sync(fd)
        with self.disk.lock:
            super().write_out(fd, flags)
            if self._opened_after.get(fd, 0) == self.disk.failures:
                self.disk.note(WroteOut(self._inode(fd)))

    def sync_file_system(self, fd: int) -> None:
        self._step("sync_file_system")
        self._fail_sync(None)
        with self.disk.lock:
            super().sync_file_system(fd)
            if self._opened_after.get(fd, 0) == self.disk.failures:
                self.disk.note(Synced(None))

    def _fail_sync(self, fd: int | None) -> None:
        """Fail as many of the next syncs as `failing_syncs` says; `fd` is None for a sync of
        everything."""
        if self.failing_syncs:
            self.failing_syncs -= 1
            with self.disk.lock:
                self.disk.failures += 1
                self.disk.note(SyncFailed(self.disk.inode(fd)))
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _folder(self, fd: int) -> int:
        inode = self.disk.inode(fd)
        assert inode is not None, "a change outside the recorded folder"
        return inode

    _inode = _folder

    def _place(self, folder_fd: int | None, name: str) -> tuple[int, str] | None:
        """Where a name is in the tree; None for the root itself and what is outside."""
        if folder_fd is not None:
            return self.disk.tree.resolve(self._folder(folder_fd), name)
        relative = os.path.relpath(name, self.disk.root)
        if relative == "." or relative.startswith("../"):
            return None
        return self.disk.tree.resolve(ROOT, relative)
