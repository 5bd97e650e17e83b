"""What a message's file says besides its body: the seal, the type, the due stamp.

This module says how a new file gets them and what they mean; `held` has the lock, and says who
may read and change them.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from mq.config import DEFAULT_CONTENT_TYPE, SECOND_NS
from mq.disk.calls import SET_ATTRIBUTE, STAMP, Chain
from mq.disk.status import AnyStatus
from mq.ids import id_time_ns
from mq.lifecycle import Folder, State

MAX_STAMP_AHEAD_NS = 400 * 86_400 * SECOND_NS
"""A due time further ahead than this comes from a broken clock, and counts as due now."""

SEAL_ATTRIBUTE = "user.mq"

TYPE_ATTRIBUTE = "user.mime_type"

NO_LEASE = 0

MAX_RECEIVE_COUNT = (1 << 32) - 1
"""The largest receive count that a seal can hold. The count stays there."""

_SEAL = struct.Struct(">QIQIQ")
_LONG_SEAL = struct.Struct(">QIQIQIIQ")
_NOT_LONG = (0, 0, 0)
_LEASE = struct.Struct(">Q")
_SIZES = (_SEAL.size, _LONG_SEAL.size)
_LEASE_AT = _SEAL.size - _LEASE.size
_RANDOM = struct.Struct("512Q")

SHORT_BYTES = _SEAL.size
"""The length of a packed seal that is not long."""

_MAX_TIME_NS = (1 << 64) - 1
"""The last time that a seal can hold, in the year 2554."""

T = TypeVar("T")


class Seal(NamedTuple):
    """The extended attribute `user.mq`: 32 or 48 bytes, big-endian, in this order.

    `length` in bytes (8), `crc32` of the body (4), `published_ns` since 1970 (8), `receive_count`
    (4), `lease` (8; 0 for none). A long seal goes on with `trailer_length` in bytes (4) and
    `trailer_crc32` (4), both of what follows the body, and `first_received_ns` since 1970 (8; 0 if
    unknown). A seal is long only if it has one of these.
    """

    length: int
    crc32: int
    published_ns: int
    receive_count: int
    lease: int
    trailer_length: int = 0
    trailer_crc32: int = 0
    first_received_ns: int = 0

    @property
    def is_long(self) -> bool:
        """Whether the root must have the format `mq 2` for this seal."""
        return self[5:] != _NOT_LONG

    @property
    def file_length(self) -> int:
        """The length of the body and what follows it, in bytes."""
        return self.length + self.trailer_length

    def pack(self) -> bytes:
        return _SEAL.pack(*self[:5]) if self[5:] == _NOT_LONG else _LONG_SEAL.pack(*self)

    @classmethod
    def unpack(cls, data: bytes | None) -> Seal | None:
        """Return None for an absent attribute, and for one that is not a seal: the file then counts
        as whole."""
        if data is None:
            return None
        if len(data) == SHORT_BYTES:
            return tuple.__new__(cls, _SEAL.unpack(data) + _NOT_LONG)
        return cls(*_LONG_SEAL.unpack(data)) if len(data) == _LONG_SEAL.size else None


def pack_new(
    length: int, crc32: int, published_ns: int, trailer_length: int = 0, trailer_crc32: int = 0
) -> bytes:
    """Return the seal of a new message as `Seal.pack` does, in a quarter of the time."""
    if trailer_length:
        behind = (trailer_length, trailer_crc32, 0)
        return _LONG_SEAL.pack(length, crc32, published_ns, 0, NO_LEASE, *behind)
    return _SEAL.pack(length, crc32, published_ns, 0, NO_LEASE)


pack_short = _SEAL.pack
"""Takes the first five fields of a seal that is not long, and packs them as `Seal.pack` does."""


def lease_in(data: bytes | None) -> int | None:
    """Return the lease that `Seal.unpack` finds, in a quarter of the time; None without a seal."""
    if data is None or len(data) not in _SIZES:
        return None
    lease: int = _LEASE.unpack_from(data, _LEASE_AT)[0]
    return lease


def state_in(folder: Folder, seal: Seal | None) -> State:
    """Return the state of a message of `queues`, `delay` or `remove`. In `delay` a message without
    a seal is leased, and its stamp is the lease."""
    if folder is not Folder.DELAY:
        return State.READY if folder is Folder.QUEUES else State.REMOVED
    return State.LEASED if seal is None or seal.lease != NO_LEASE else State.DELAYED


def published_ns(seal: Seal | None, status: AnyStatus, message_id: str) -> int:
    """Return when a message was published, in ns since 1970.

    Without a seal it is the time inside a v7 or v1 id, or else the mtime, brought into the range
    that a seal can hold.
    """
    if seal is not None:
        return seal.published_ns
    time_ns = id_time_ns(message_id)
    return min(max(status.st_mtime_ns if time_ns is None else time_ns, 0), _MAX_TIME_NS)


class Leases:
    """Makes new leases. One call gets random bytes for many of them: a call for each would take as
    long as all the rest of a lease."""

    def __init__(self) -> None:
        self._left: list[int] = []

    def next(self) -> int:
        if not self._left:
            self._left += _RANDOM.unpack(os.urandom(_RANDOM.size))
        return self._left.pop() or self.next()


def sealing(fd: int, seal: bytes | None, content_type: str | None, due_ns: int | None) -> Chain:
    """Return the file calls that write what a new message's file must say before it has a name.
    `seal` is packed, and None where the file system has no attributes; then no type is written
    either. `due_ns` is when a delayed message is due, rounded to what the file system can keep.

    The stamp comes last: the link sets ctime, so an mtime after that tells a sweep that finds the
    file until when it is hidden.
    """
    calls: Chain = ()
    if seal is not None:
        calls = ((SET_ATTRIBUTE, fd, SEAL_ATTRIBUTE, seal),)
        if content_type is not None and content_type != DEFAULT_CONTENT_TYPE:
            kind = content_type.encode("latin-1")
            calls += ((SET_ATTRIBUTE, fd, TYPE_ATTRIBUTE, kind),)
    if due_ns is not None:
        calls += ((STAMP, fd, due_ns),)
    return calls


def due_ns(status: AnyStatus, delay_ns: int) -> int:
    """Return when a file in `delay` is due, in ns since 1970.

    This is its mtime if that is later than its ctime: a rename sets ctime, so the file was stamped
    on purpose, just before. Otherwise it is ctime plus `delay_ns`.
    """
    if status.st_mtime_ns > status.st_ctime_ns:
        return status.st_mtime_ns
    return status.st_ctime_ns + delay_ns


def is_due(due: int, now_ns: int) -> bool:
    """Return whether the time has come, or the stamp is so far ahead that only a broken clock can
    have made it."""
    return due <= now_ns or due > now_ns + MAX_STAMP_AHEAD_NS


def is_stamped_ahead(status: AnyStatus, now_ns: int) -> bool:
    """Return whether a file on its way was published with a delay that is not over yet.

    The stamp is set on the file before it has a name; the link sets ctime, so a later mtime was
    meant as a stamp. The mtime of an ordinary file is that of its last write, before the link.
    """
    stamp = status.st_mtime_ns
    return stamp > status.st_ctime_ns and not is_due(stamp, now_ns)


def round_up(time_ns: int, granularity_ns: int) -> int:
    """Return the first instant at or after `time_ns` that the file system can keep."""
    return -(-time_ns // granularity_ns) * granularity_ns


def unless_unreadable(read: Callable[[], T]) -> T | None:
    """Return what `read` returns, or None if it fails with EIO twice. Other errors are raised:
    ESTALE, EINTR and EMFILE say nothing about the file."""
    for _ in range(2):
        try:
            return read()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
    return None
