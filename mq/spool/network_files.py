"""Files on a file system that other hosts work on too.

Six things differ there from a local file system:

- **Names and attributes are cached**, often for a second. What another host did meanwhile is
  invisible to stat(2) and open(2). A look that decides something asks the file system itself.
- **A reply can be lost.** The rename was made, and the answer says that there is no such name. Then
  the file is where it was to go.
- **Locks of folders stay on one host** (FUSE, NFS). Locks of bytes reach the others, so the lock of
  a folder is that of a byte of the file `format`.
- **syncfs(2) stops at this host.** What this process has changed is synced one by one.
- **A lock ends some time after its file was closed**, so it is ended first.
- **A file that was made without a name can be lost**, although it got one (JuiceFS), so none is.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mq.disk.byte_locks import offset_of, share_byte, unlock_bytes
from mq.disk.files import Files
from mq.spool.file_system import file_system_kind, is_of_network, nearest_folder
from mq.spool.root_format import FORMAT_FILE

STALE_NS = 2_000_000_000
"""How long this host may see an old status after another host has changed it, in ns."""

_MOST_CHANGED_FOLDERS = 64


def files_for(path: Path) -> Files:
    """Return what changes the root at `path`, or the root around that folder. What does not exist
    yet will be made on the file system of the nearest folder above."""
    if not is_of_network(file_system_kind(nearest_folder(path))):
        return Files()
    root = path.parent if os.path.isfile(path.parent / FORMAT_FILE) else path
    return NetworkFiles(root)


class NetworkFiles(Files):
    """Raises OSError as `Files` does. For any thread."""

    is_of_network = True

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.has_unnamed_files = False
        self._format = str(root / FORMAT_FILE)
        kind = file_system_kind(nearest_folder(root))
        self._is_asked = kind.startswith(("fuse", "virtiofs")) or not is_of_network(kind)
        self._mutex, self._syncing = threading.Lock(), threading.Lock()
        self._folder_locks: dict[int, int] = {}
        self._locked: set[int] = set()
        self._written: set[int] = set()
        self._changed: dict[int, int] = {}
        self._failed = OSError(errno.EIO, os.strerror(errno.EIO))
        self._failures = self._reported = 0
        self._heard: dict[int, int] = {}

    # Names

    def rename(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        """Move as `Files` does. If the file was at `source` and is at `target` now, it was moved:
        by this call, or by another process that made the same move meanwhile."""
        with self._moving(source_fd, source, target_fd, target):
            self.rename_once(source_fd, source, target_fd, target)

    @contextmanager
    def _moving(self, source_fd: int, source: str, target_fd: int, target: str) -> Iterator[None]:
        inode = self._known_inode_of(source_fd, source)
        try:
            yield
        except (FileNotFoundError, FileExistsError):
            is_there = self._inode_of(target_fd, target) == inode
            if not is_there or self._inode_of(source_fd, source) is not None:
                raise

    def rename_once(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        """Move as `rename` does, but a lost reply counts as a lost race.

        Without RENAME_NOREPLACE this looks first whether `target` is taken, and then renames: one
        step, which another host sees as a whole. A link and an unlink would be two, and the link
        would go by a cached name, after the message had been removed by another host.
        """
        with self._changing(source_fd, target_fd):
            super().rename_once(source_fd, source, target_fd, target)

    def _without_flags(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        there = self._inode_of(target_fd, target)
        if there is None:
            return super().replace(source_fd, source, target_fd, target)
        if there != self.status_of(source_fd, source).st_ino:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target)
        self.unlink(source_fd, source)  # Two names of one file: a move that stopped half-way.

    def exists(self, folder_fd: int | None, name: str) -> bool:
        try:
            self.look_up(folder_fd, name)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return False
        return super().exists(folder_fd, name)

    def status_of(self, folder_fd: int, name: str) -> os.stat_result:
        """Ask the file system itself, whatever this host has cached."""
        try:
            self.look_up(folder_fd, name)
        except OSError as error:
            if error.errno == errno.ENOENT:  # Asking for its status would take another request.
                raise
        return super().status_of(folder_fd, name)

    def look_up(self, folder_fd: int | None, name: str) -> None:
        """Do nothing unless the file system is one of FUSE. NFS and Lustre take each name that they
        have not cached for free, and ask nobody (nfs_is_exclusive_create, ll_lookup_nd)."""
        if self._is_asked:
            super().look_up(folder_fd, name)

    def _known_inode_of(self, folder_fd: int, name: str) -> int:
        """Return the inode of a name as this host knows it, which mostly costs no request. A name
        leads to one file while it exists, so the inode is right even if the file is gone by now."""
        with suppress(FileNotFoundError):
            return super().status_of(folder_fd, name).st_ino
        return self.status_of(folder_fd, name).st_ino

    def _inode_of(self, folder_fd: int, name: str) -> int | None:
        with suppress(FileNotFoundError):
            return self.status_of(folder_fd, name).st_ino
        return None

    def open_message(self, folder_fd: int, name: str) -> int:
        with suppress(FileNotFoundError):
            return super().open_message(folder_fd, name)
        self.status_of(folder_fd, name)
        return super().open_message(folder_fd, name)

    def open_unnamed(self, folder_fd: int, mode: int) -> int:
        try:
            return super().open_unnamed(folder_fd, mode)
        except FileExistsError:  # The name was made, and the reply lost. A sweep finds that file.
            return super().open_unnamed(folder_fd, mode)

    def link(self, fd: int, folder_fd: int, name: str) -> None:
        try:
            with self._changing(folder_fd):
                super().link(fd, folder_fd, name)
        except FileExistsError:
            if not os.path.samestat(os.fstat(fd), self.status_of(folder_fd, name)):
                raise

    def replace(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        moving = self._moving(source_fd, source, target_fd, target)
        with moving, self._changing(source_fd, target_fd):
            super().replace(source_fd, source, target_fd, target)

    def unlink(self, folder_fd: int, name: str) -> None:
        """Take a name away. If it is gone already, this call or another process has done that."""
        with self._changing(folder_fd), suppress(FileNotFoundError):
            super().unlink(folder_fd, name)

    def make_folder(self, folder_fd: int | None, name: str, mode: int) -> None:
        """Make a folder. If it was not there and is there now, this call or another process that
        makes the same folder has made it."""
        was_there = self.exists(folder_fd, name)
        try:
            with self._changing(*(() if folder_fd is None else (folder_fd,))):
                super().make_folder(folder_fd, name, mode)
        except FileExistsError:
            if was_there or not self.exists(folder_fd, name):
                raise

    def remove_folder(self, folder_fd: int, name: str) -> None:
        """Remove an empty folder, as `unlink` does a name."""
        with self._changing(folder_fd), suppress(FileNotFoundError):
            super().remove_folder(folder_fd, name)

    # Locks

    def lock(self, fd: int) -> bool:
        return self._take(fd, super().lock, self.lock_byte)

    def lock_shared(self, fd: int) -> bool:
        return self._take(fd, super().lock_shared, share_byte)

    def _take(
        self, fd: int, lock_file: Callable[[int], bool], lock_byte: Callable[[int, int], bool]
    ) -> bool:
        status = os.fstat(fd)
        if not stat.S_ISDIR(status.st_mode):
            is_taken = lock_file(fd)
            if is_taken:
                self._locked.add(fd)
            return is_taken
        held = self._folder_locks.get(fd)
        try:
            byte_fd = self.open_to_lock(self._format) if held is None else held
        except FileNotFoundError:
            return lock_file(fd)
        is_taken = lock_byte(byte_fd, offset_of(f"folder/{status.st_ino}"))
        if is_taken:
            self._folder_locks[fd] = byte_fd
        elif held is None:
            super().close(byte_fd)
        return is_taken

    def unlock(self, fd: int) -> None:
        byte_fd = self._folder_locks.pop(fd, None)
        if byte_fd is None:
            self._locked.discard(fd)
            super().unlock(fd)
        else:
            self._let_go_of_bytes(byte_fd)

    def _let_go_of_bytes(self, byte_fd: int) -> None:
        with suppress(OSError):  # The lock ends with the descriptor, only later.
            unlock_bytes(byte_fd)
        super().close(byte_fd)

    def close(self, fd: int) -> None:
        if fd in self._locked or fd in self._folder_locks:
            with suppress(OSError):
                self.unlock(fd)
        if fd in self._written and fd not in self._temporary_names:  # Those are dropped.
            self._sync_for_others(fd)
        self._written.discard(fd)
        self._heard.pop(fd, None)
        super().close(fd)

    # Stable media

    def open_folder(self, folder_fd: int | None, name: str) -> int:
        fd = super().open_folder(folder_fd, name)
        self._heard[fd] = self._reported
        return fd

    def write(self, fd: int, data: bytes | bytearray | memoryview) -> None:
        self._written.add(fd)
        super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._written.discard(fd)
        super().sync(fd)

    def sync_file_system(self, fd: int) -> None:
        """Sync each folder in which this process has changed a name, and `fd`. Files are synced as
        they are closed, or by their owners, because an error is reported once to a descriptor. If a
        sync for others has failed since `fd` was opened, the caller's own data may be concerned:
        its error is raised, once for each `fd`, as by syncfs(2)."""
        self._sync_changed(0)
        self._sync_for_others(fd)
        if self._heard.get(fd, self._reported) != self._failures:
            self._heard[fd] = self._reported = self._failures
            raise OSError(self._failed.errno, self._failed.strerror)

    def _sync_changed(self, left: int) -> None:
        """Sync the folders in which a name was changed, all but the last `left` of them."""
        with self._syncing:  # What another thread has begun to sync may be the caller's.
            with self._mutex:
                some = [self._changed.pop(each) for each in [*self._changed][: -left or None]]
            for fd in some:
                self._sync_for_others(fd)
                super().close(fd)

    def _sync_for_others(self, fd: int) -> None:
        try:
            self.sync(fd)
        except OSError as error:
            self._keep(error)

    def _keep(self, error: OSError) -> None:
        with self._mutex:
            self._failed = error
            self._failures += 1

    @contextmanager
    def _changing(self, *folder_fds: int) -> Iterator[None]:
        """Note the folders in which a name is changed, after that: another thread may sync them
        just before."""
        try:
            yield
        finally:
            for fd in folder_fds:
                self._note_change(fd)

    def _note_change(self, fd: int) -> None:
        try:
            inode = os.fstat(fd).st_ino
            with self._mutex:
                if inode not in self._changed:
                    self._changed[inode] = os.dup(fd)
        except OSError as error:
            self._keep(error)
        if len(self._changed) > _MOST_CHANGED_FOLDERS:
            self._sync_changed(_MOST_CHANGED_FOLDERS)
