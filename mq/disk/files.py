"""The one module that changes the file system.

Everything else asks a `Files` for it, so a test can put a full disk or a power cut in its place.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mq.disk import libc
from mq.disk.byte_locks import lock_byte, try_lock

_RENAME_NOREPLACE, _RENAME_EXCHANGE = 1, 2
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_MESSAGE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
LACKS_RENAME_FLAGS = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}
LACKS_UNNAMED_FILES = {errno.EISDIR, errno.EOPNOTSUPP, errno.ENOENT}

HIDDEN = "."
"""Begins the name of a probe, or of an upload where files need names; never that of a message."""


class Files:
    """The file system. Raises OSError as the kernel says; no call is tried again after an error.

    A file of a user other than `owners` is not taken for a message, nor followed as a link.
    """

    is_of_network = False  # Whether other hosts may work on it: `mq.spool.network_files`.

    def __init__(self) -> None:
        self._libc, self.owners = libc.load_libc(), {0, os.geteuid()}
        self.renames_without_replacing = self.has_unnamed_files = True
        self._are_btrfs: dict[int, bool] = {}
        self._temporary_names: dict[int, tuple[int, str]] = {}

    # Names

    def rename(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        """Move atomically and never replace. Raises FileExistsError if `target` is taken.

        Where RENAME_NOREPLACE is missing, this links and then unlinks. A crash between the two
        leaves both names of one file; the next move between them takes one away.
        """
        self.rename_once(source_fd, source, target_fd, target)

    def rename_once(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        """Move as `rename` does, and raise FileNotFoundError even if this call may have moved the
        file: on a network file system the reply can be lost."""
        if self.renames_without_replacing:
            code = self._rename_errno(source_fd, source, target_fd, target, _RENAME_NOREPLACE)
            if not code:
                return
            if code not in LACKS_RENAME_FLAGS:
                raise OSError(code, os.strerror(code), source, None, target)
            self.renames_without_replacing = False
        self._without_flags(source_fd, source, target_fd, target)

    def exchange(self, folder_fd: int, name: str, other_fd: int, other: str) -> None:
        """Exchange what two names lead to, atomically."""
        if code := self._rename_errno(folder_fd, name, other_fd, other, _RENAME_EXCHANGE):
            raise OSError(code, os.strerror(code), name, None, other)

    def _rename_errno(self, fd: int, name: str, other_fd: int, other: str, flag: int) -> int:
        failed = self._libc.renameat2(fd, libc.c_name(name), other_fd, libc.c_name(other), flag)
        return ctypes.get_errno() if failed else 0

    def _without_flags(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        try:
            self._link_name(source_fd, source, target_fd, target)
        except FileExistsError:
            # Both may be names of one file: a move between them stopped half-way. Finish it.
            names = self.status_of(source_fd, source), self.status_of(target_fd, target)
            if not os.path.samestat(*names):
                raise
        except PermissionError:
            # A folder cannot be linked. A plain rename of one replaces only an empty folder.
            if not os.path.isdir(f"/proc/self/fd/{source_fd}/{source}"):
                raise
            return self.replace(source_fd, source, target_fd, target)
        try:
            self.unlink(source_fd, source)
        except FileNotFoundError:
            # This call took the name and its answer was lost, or another process moved the file.
            # The new name may be the only one, so it stays. A removal takes all names.
            if self.status_of(target_fd, target).st_nlink > 1:
                raise

    def _link_name(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        os.link(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd, follow_symlinks=False)

    def replace(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        """Move atomically and replace what has the name `target`. Never use it for messages."""
        os.rename(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd)

    def unlink(self, folder_fd: int, name: str) -> None:
        os.unlink(name, dir_fd=folder_fd)

    def make_folder(self, folder_fd: int | None, name: str, mode: int) -> None:
        os.mkdir(name, mode, dir_fd=folder_fd)

    def remove_folder(self, folder_fd: int, name: str) -> None:
        os.rmdir(name, dir_fd=folder_fd)

    def set_mode(self, folder_fd: int | None, name: str, mode: int) -> None:
        """Set the mode of a file or folder, even of one that may not be opened; not of a link."""
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder_fd)
        try:
            os.chmod(f"/proc/self/fd/{fd}", mode)
        finally:
            self.close(fd)

    # Files

    def open_unnamed(self, folder_fd: int, mode: int) -> int:
        """Open a new file without a name, which the file system drops at the end of the process.
        Where there are no unnamed files it has a hidden name until `link` or `close`; after a crash
        a sweep removes it, because its lock is free."""
        if self.has_unnamed_files:
            try:
                return os.open(".", os.O_TMPFILE | os.O_RDWR, mode, dir_fd=folder_fd)
            except OSError as error:
                if error.errno not in LACKS_UNNAMED_FILES:
                    raise
                self.has_unnamed_files = False
        name = f"{HIDDEN}{secrets.token_hex(8)}"
        fd = self.create(folder_fd, name, mode)
        self._temporary_names[fd] = (folder_fd, name)
        try:
            is_ours = self.lock(fd) and os.fstat(fd).st_nlink > 0
        except OSError:
            self.close(fd)
            raise
        if not is_ours:
            # Another process's sweep saw it before it was locked, and discards it.
            del self._temporary_names[fd]
            self.close(fd)
            return self.open_unnamed(folder_fd, mode)
        return fd

    def create(self, folder_fd: int, name: str, mode: int) -> int:
        """Open a new file with a name, to write. Raises FileExistsError, also if it is a link."""
        return os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode, dir_fd=folder_fd)

    def link(self, fd: int, folder_fd: int, name: str) -> None:
        """Give an unnamed file its name. Raises FileExistsError if `name` is taken."""
        if fd in self._temporary_names:
            temporary_fd, temporary = self._temporary_names[fd]
            self.rename(temporary_fd, temporary, folder_fd, name)
            del self._temporary_names[fd]
        else:
            # Without dst_dir_fd Python calls link(2), which does not follow /proc's link: EXDEV.
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder_fd, follow_symlinks=True)

    def open_message(self, folder_fd: int, name: str) -> int:
        """Open a file to read; does not follow a link (ELOOP), nor wait for a FIFO's writer."""
        return os.open(name, _MESSAGE, dir_fd=folder_fd)

    def open_to_look(self, folder_fd: int, name: str) -> int:
        """Open a message as `open_message` does. If the file belongs to this user, reading leaves
        its access time as it is (O_NOATIME, open(2))."""
        try:
            return os.open(name, _MESSAGE | os.O_NOATIME, dir_fd=folder_fd)
        except PermissionError:
            return self.open_message(folder_fd, name)

    def inode(self, fd: int) -> int:
        return os.fstat(fd).st_ino

    def status_of(self, folder_fd: int, name: str) -> os.stat_result:
        """Return the status of a name; links are not followed."""
        return os.stat(name, dir_fd=folder_fd, follow_symlinks=False)

    def exists(self, folder_fd: int | None, name: str) -> bool:
        """Whether a name leads to anything, which for a link is its target. Where this user may not
        look there is nothing. Raises OSError if the disk does not say."""
        return libc.exists(self._libc, folder_fd, name)

    def look_up(self, folder_fd: int | None, name: str) -> None:
        """Make the kernel ask the file system for a name (`libc.look_up`). Raises FileExistsError
        if the name is there, or else FileNotFoundError."""
        libc.look_up(self._libc, folder_fd, name)

    def open_folder(self, folder_fd: int | None, name: str) -> int:
        return os.open(name, _FOLDER, dir_fd=folder_fd)

    def close(self, fd: int) -> None:
        """Close a descriptor, which ends its lock and drops a file that never got a name. An error
        is ignored: Linux frees the descriptor whatever close(2) returns, what must last was synced
        before, and a sweep finds an upload that keeps its hidden name."""
        if (temporary := self._temporary_names.pop(fd, None)) is not None:
            with suppress(OSError):
                os.unlink(temporary[1], dir_fd=temporary[0])
        try:
            os.close(fd)
        except OSError as error:
            if error.errno == errno.EBADF:
                raise

    def replace_fd(self, new_fd: int, fd: int) -> None:
        """Let `fd` take over what `new_fd` has open, in one step: no thread finds `fd` closed."""
        try:
            os.dup2(new_fd, fd, inheritable=False)
        finally:
            self.close(new_fd)

    def write(self, fd: int, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data`, with several write(2) if the first one is short."""
        written = os.write(fd, data)
        while written < len(data):
            written += os.write(fd, memoryview(data)[written:])

    def read(self, fd: int, length: int, offset: int = 0) -> bytes:
        """Return up to `length` bytes from `offset`, and fewer only at the end of the file."""
        data = os.pread(fd, length, offset)
        while 0 < len(data) < length:
            more = os.pread(fd, length - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    # Attributes

    def set_attribute(self, fd: int, name: str, value: bytes) -> None:
        os.setxattr(fd, name, value)

    def attribute(self, fd: int | str, name: str) -> bytes | None:
        """Return an extended attribute of an open file or a path, never of a link's target."""
        try:
            return os.getxattr(fd, name, follow_symlinks=isinstance(fd, int))
        except OSError as error:
            if error.errno in (errno.ENODATA, errno.EOPNOTSUPP):
                return None
            raise

    def stamp(self, fd: int, mtime_ns: int) -> None:
        os.utime(fd, ns=(mtime_ns, mtime_ns))

    def lock(self, fd: int) -> bool:
        """Take the file's lock if it is free. It ends when `fd` is closed."""
        return try_lock(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def lock_shared(self, fd: int) -> bool:
        """Share the lock with others, unless one of them holds it exclusively."""
        return try_lock(fcntl.flock, fd, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def unlock(self, fd: int) -> None:
        """End the lock of a file that stays open."""
        fcntl.flock(fd, fcntl.LOCK_UN)

    def open_to_lock(self, path: str) -> int:
        """Open a file that `lock_byte` is used on."""
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW)

    def lock_byte(self, fd: int, offset: int) -> bool:
        """Take the lock of one byte of a file if it is free (`mq.disk.byte_locks`)."""
        return lock_byte(fd, offset)

    @contextmanager
    def locked_folder(self, folder_fd: int, name: str, wait_seconds: float = 0.0) -> Iterator[int]:
        """Hold a folder's lock, and yield the folder's descriptor. Raises BlockingIOError after
        `wait_seconds`, because a stopped process may hold the lock."""
        fd = self.open_folder(folder_fd, name)
        try:
            deadline = time.monotonic() + wait_seconds
            while not self.lock(fd):
                if time.monotonic() >= deadline:
                    raise BlockingIOError(errno.EWOULDBLOCK, "another process holds its lock", name)
                time.sleep(0.001)
            yield fd
        finally:
            self.close(fd)

    # Stable media

    def write_out(self, fd: int, flags: int) -> None:
        """Begin to write the data of a file to the disk, or wait for all of it (`mq.disk.libc`:
        BEGIN, WHOLE). It is durable once a sync has brought a later entry of the log."""
        libc.write_out(self._libc, fd, flags)

    def sync(self, fd: int) -> None:
        """Call fsync(2), or syncfs(2) for a folder of btrfs. Never repeat it after an error."""
        if self.is_of_network:
            return os.fsync(fd)
        is_all = libc.is_folder_of_btrfs(self._libc, fd, self._are_btrfs)
        (self.sync_file_system if is_all else os.fsync)(fd)
        libc.require_log(fd)

    def sync_file_system(self, fd: int) -> None:
        """Call syncfs(2), which reports a writeback error once for each descriptor (Linux 5.8)."""
        libc.sync_file_system(self._libc, fd)
        libc.require_log(fd)
