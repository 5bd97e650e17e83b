"""Locks of single bytes of a file, which need not exist (F_OFD_SETLK, fcntl(2)). Each belongs to a
descriptor and ends when that is closed; other descriptors of the same process respect it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
from collections.abc import Callable

_LOCK = struct.Struct("hhqqi4x")
"""struct flock: type, whence, start, length, process."""

_OFFSET_BYTES = 7
"""This many bytes of a hash are the number of the byte to lock, so that every number fits into
off_t."""


def offset_of(name: str) -> int:
    """Return the byte whose lock is that of a name. Two names may share a byte, once in 7 * 10**16
    pairs."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=_OFFSET_BYTES).digest())


def lock_byte(fd: int, offset: int) -> bool:
    """Take the lock if it is free. Returns whether it was."""
    return try_lock(fcntl.fcntl, fd, fcntl.F_OFD_SETLK, _lock(fcntl.F_WRLCK, offset))


def share_byte(fd: int, offset: int) -> bool:
    """Share the lock with others, unless one of them holds it exclusively."""
    return try_lock(fcntl.fcntl, fd, fcntl.F_OFD_SETLK, _lock(fcntl.F_RDLCK, offset))


def unlock_bytes(fd: int) -> None:
    """Release the locks of all bytes."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _lock(fcntl.F_UNLCK, 0, 0))


def try_lock(take_lock: Callable[..., object], *arguments: object) -> bool:
    """Take a lock without waiting. Returns False if it is held: EAGAIN, or EACCES of fcntl(2)."""
    try:
        take_lock(*arguments)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _lock(kind: int, offset: int, length: int = 1) -> bytes:
    return _LOCK.pack(kind, os.SEEK_SET, offset, length, 0)
