"""System calls that Python lacks, or whose errors it hides: renameat2(2), syncfs(2), statx(2),
faccessat(2), linkat(2). They release the GIL."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat
import struct
from collections.abc import Callable

from mq.errors import ExitCode, StartRefused

_BTRFS_MAGIC = 0x9123683E
_STATFS_BYTES = 256
"""At least as large as a `struct statfs`, which begins with the type of the file system
(statfs(2))."""

_NO_ATTRIBUTE = "user.mq.none"

_LOG_IS_THERE = frozenset({errno.ENODATA, errno.EOPNOTSUPP, errno.EPERM, errno.EACCES})
"""How the removal of a missing attribute fails where the log still works: there is none, or this
file system or this user may have none."""

BEGIN, WHOLE = 2, 7
"""Flags of sync_file_range(2): SYNC_FILE_RANGE_WRITE, and that with _WAIT_BEFORE and _WAIT_AFTER.
"""

_NOTHING_THERE = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES, errno.EPERM}
)
"""Errors of a look which say that the name leads nowhere, or where this user may not look."""

_NOT_LINKED = frozenset({errno.EPERM, errno.EROFS})
"""How linkat(2) of a folder fails if the new name is free."""

_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_STATX_BTIME = 0x800
_STATX = struct.Struct("I76xqI164x")
"""struct statx: which fields there are, the seconds and nanoseconds of the birth."""


@functools.cache
def load_libc() -> ctypes.CDLL:
    """Load the C library. Raises StartRefused where it lacks one of the calls."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.renameat2.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_uint,
        )
        libc.syncfs.argtypes = (ctypes.c_int,)
        libc.fstatfs.argtypes = (ctypes.c_int, ctypes.c_char_p)
    except (OSError, AttributeError) as error:
        raise StartRefused(
            ExitCode.SYSTEM, f"this system has no renameat2 and syncfs ({error}): MQ runs on Linux"
        ) from None
    return libc


def c_name(text: str) -> bytes:
    """Encode a name like os.fsencode. A NUL would end the name early, so it is refused."""
    if "\0" in text:
        raise ValueError("embedded null character")
    return text.encode("utf-8", "surrogateescape")


def exists(libc: ctypes.CDLL, folder_fd: int | None, name: str) -> bool:
    """Call faccessat(2). os.access takes every error for a missing name, even an error of the
    disk."""
    if not libc.faccessat(_AT_FDCWD if folder_fd is None else folder_fd, c_name(name), os.F_OK, 0):
        return True
    code = ctypes.get_errno()
    if code not in _NOTHING_THERE:
        raise OSError(code, os.strerror(code), name)
    return False


def look_up(libc: ctypes.CDLL, folder_fd: int | None, name: str) -> None:
    """Call linkat(2) to give a folder another name, which always fails. But first the kernel looks
    whether that name is free, and for that asks the file system, whatever it has cached
    (LOOKUP_EXCL, in each version of Linux). Raises FileExistsError or FileNotFoundError, or another
    OSError, which says nothing."""
    at = _AT_FDCWD if folder_fd is None else folder_fd
    folder = "." if folder_fd is not None else os.path.dirname(name) or "."
    libc.linkat(at, c_name(folder), at, c_name(name), 0)
    code = ctypes.get_errno()
    if code in _NOT_LINKED:
        code = errno.ENOENT
    raise OSError(code, os.strerror(code), name)


def is_folder_of_btrfs(libc: ctypes.CDLL, fd: int, known: dict[int, bool]) -> bool:
    """Return whether a folder is on btrfs. There fsync(2) logs this one folder alone: after a power
    cut a file that was moved can have both its names, although both folders were synced. `known`
    remembers the answer for each device."""
    status = os.fstat(fd)
    if not stat.S_ISDIR(status.st_mode):
        return False
    if status.st_dev not in known:
        found = ctypes.create_string_buffer(_STATFS_BYTES)
        if libc.fstatfs(fd, found):
            return False
        known[status.st_dev] = ctypes.c_uint32.from_buffer(found).value == _BTRFS_MAGIC
    return known[status.st_dev]


def sync_file_system(libc: ctypes.CDLL, fd: int) -> None:
    """Call syncfs(2) for the file system of `fd`. Raises OSError."""
    if libc.syncfs(fd):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "syncfs")


def write_out(libc: ctypes.CDLL, fd: int, flags: int) -> None:
    """Call sync_file_range(2) for all of a file. Raises OSError."""
    if libc.sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(0), ctypes.c_uint(flags)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "sync_file_range")


def require_log(fd: int) -> None:
    """Raise OSError if the file system has given up its log, after a call that has synced `fd`.

    After an error ext4 and xfs drop what is not in the log yet, and a sync that comes a moment
    later finds nothing to wait for and succeeds. The removal of an attribute that is not there
    changes nothing, but begins a change, which the file system refuses from that error on.
    """
    try:
        os.removexattr(fd, _NO_ATTRIBUTE)
    except OSError as error:
        if error.errno not in _LOG_IS_THERE:
            raise


def birth_ns(path: str) -> int | None:
    """Return when a file or folder was made, in ns since 1970, or None if it is gone or the file
    system does not know."""
    statx = _load_statx()
    if statx is None:
        return None
    status = ctypes.create_string_buffer(_STATX.size)
    failed = statx(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, status)
    fields, seconds, nanoseconds = _STATX.unpack(status.raw)
    return None if failed or not fields & _STATX_BTIME else seconds * 1_000_000_000 + nanoseconds


@functools.cache
def _load_statx() -> Callable[..., int] | None:
    """Return statx(2), or None where the C library lacks it. To load a library takes longer than
    most calls of it."""
    return getattr(ctypes.CDLL(None), "statx", None)
