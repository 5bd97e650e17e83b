"""System calls that Python lacks: renameat2(2), syncfs(2), statx(2). They release the GIL."""

from __future__ import annotations

import ctypes
import os
import stat
import struct

from mq.errors import ExitCode, StartRefused

_BTRFS_MAGIC = 0x9123683E
_STATFS_BYTES = 256
"""At least a `struct statfs`, which begins with the type of the file system (statfs(2))."""

_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_STATX_BTIME = 0x800
_STATX = struct.Struct("I76xqI164x")
"""struct statx: which fields there are, the seconds and nanoseconds of the birth."""


def load_libc() -> ctypes.CDLL:
    """Raises StartRefused where there is no such thing."""
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


def is_folder_of_btrfs(libc: ctypes.CDLL, fd: int) -> bool:
    """There fsync(2) logs the one folder alone: after a power cut a file that was moved can have
    both its names, although both folders were synced."""
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        return False
    status = ctypes.create_string_buffer(_STATFS_BYTES)
    if libc.fstatfs(fd, status):
        return False
    return ctypes.c_uint32.from_buffer(status).value == _BTRFS_MAGIC


def birth_ns(path: str) -> int | None:
    """When a file or folder was made, in ns since 1970; None if it is not there, or nobody kept
    that."""
    status = ctypes.create_string_buffer(_STATX.size)
    try:
        failed = ctypes.CDLL(None).statx(
            _AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, status
        )
    except AttributeError:
        return None
    fields, seconds, nanoseconds = _STATX.unpack(status.raw)
    return None if failed or not fields & _STATX_BTIME else seconds * 1_000_000_000 + nanoseconds
