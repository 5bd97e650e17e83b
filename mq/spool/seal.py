"""What the file of a message says beside its body: the seal, the type, the due stamp.

How a new file gets them and what they mean is here; who may read and change them, and the lock, is
in `mq.spool.message`.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple, TypeVar

from mq.config import CHUNK_BYTES, DEFAULT_CONTENT_TYPE, MAX_STAMP_AHEAD_NS
from mq.lifecycle import Folder
from mq.names import id_time_ns
from mq.spool.calls import SET_ATTRIBUTE, STAMP, Call, check, run
from mq.spool.files import Files
from mq.spool.status import AnyStatus

SEAL_ATTRIBUTE = "user.mq"

TYPE_ATTRIBUTE = "user.mime_type"

NO_LEASE = 0

MAX_RECEIVE_COUNT = (1 << 32) - 1
"""Where the count ends: more its bytes cannot say."""

_SEAL = struct.Struct(">QIQIQ")
_LONG_SEAL = struct.Struct(">QIQIQIIQ")
_NOT_LONG = (0, 0, 0)

_MAX_TIME_NS = (1 << 64) - 1
"""In the year 2554: the last time that a seal can say."""

T = TypeVar("T")


class Seal(NamedTuple):
    """The extended attribute `user.mq`: 32 or 48 bytes, big-endian, in this order.

    `length` in bytes (8), `crc32` of the body (4), `published_ns` since 1970 (8),
    `receive_count` (4), `lease` (8; 0 for none). A long one goes on with `trailer_length` in bytes
    (4), `trailer_crc32` (4), both of what is behind the body, and `first_received_ns` since 1970
    (8; 0 for not known). It is long if it must be.
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
        """Whether a root needs format `mq 2` for it."""
        return self[5:] != _NOT_LONG

    @property
    def file_length(self) -> int:
        """Of the body and what is behind it, in bytes."""
        return self.length + self.trailer_length

    def pack(self) -> bytes:
        return _SEAL.pack(*self[:5]) if self[5:] == _NOT_LONG else _LONG_SEAL.pack(*self)

    @classmethod
    def unpack(cls, data: bytes | None) -> Seal | None:
        """None for an absent attribute or one that is not a seal: the file is taken as whole."""
        if data is None:
            return None
        if len(data) == _SEAL.size:
            return cls._make(_SEAL.unpack(data) + _NOT_LONG)
        return cls._make(_LONG_SEAL.unpack(data)) if len(data) == _LONG_SEAL.size else None


class State(StrEnum):
    """Where a message is on its way, as people and programs are told."""

    READY = "ready"
    LEASED = "leased"
    DELAYED = "delayed"
    REMOVED = "removed"


def state_in(folder: Folder, seal: Seal | None) -> State:
    """The state of a message of `queues`, `delay` or `remove`. What lies in `delay` without a seal
    is under a lease: its stamp."""
    if folder is not Folder.DELAY:
        return State.READY if folder is Folder.QUEUES else State.REMOVED
    return State.LEASED if seal is None or seal.lease != NO_LEASE else State.DELAYED


def published_ns(seal: Seal | None, status: AnyStatus, message_id: str) -> int:
    """When a message was published, in ns since 1970. Without a seal: as a v7 or v1 id says, else
    its mtime, or the nearest time to that that a seal can say."""
    if seal is not None:
        return seal.published_ns
    time_ns = id_time_ns(message_id)
    return min(max(status.st_mtime_ns if time_ns is None else time_ns, 0), _MAX_TIME_NS)


def new_lease() -> int:
    return int.from_bytes(os.urandom(8)) or 1


def seal_new(
    files: Files, fd: int, seal: Seal | None, content_type: str | None, due_ns: int | None
) -> None:
    """Write what a new message's file must say before it has a name, as `sealing` says. Raises
    OSError."""
    check(run(files, [tuple(sealing(fd, seal, content_type, due_ns))])[0])


def sealing(
    fd: int, seal: Seal | None, content_type: str | None, due_ns: int | None
) -> Iterator[Call]:
    """The file calls that write what a new message's file must say before it has a name. Without
    `seal` the file system keeps none, and no type; `due_ns` is when a delayed one is due, as the
    file system can keep it.

    The stamp comes last: the link sets ctime, so an mtime after that tells a sweep that finds the
    file until when it is hidden.
    """
    if seal is not None:
        yield SET_ATTRIBUTE, fd, SEAL_ATTRIBUTE, seal.pack()
        if content_type not in (None, DEFAULT_CONTENT_TYPE):
            yield SET_ATTRIBUTE, fd, TYPE_ATTRIBUTE, content_type.encode("latin-1")
    if due_ns is not None:
        yield STAMP, fd, due_ns


def due_ns(status: AnyStatus, delay_ns: int) -> int:
    """When a file in `delay` is due, in ns since 1970.

    Its mtime if that is later than its ctime: a rename sets ctime, so it was stamped on purpose,
    just before. Otherwise ctime plus `delay_ns`.
    """
    if status.st_mtime_ns > status.st_ctime_ns:
        return status.st_mtime_ns
    return status.st_ctime_ns + delay_ns


def is_due(due: int, now_ns: int) -> bool:
    """Also when the stamp is so far ahead that only a broken clock can have made it."""
    return due <= now_ns or due > now_ns + MAX_STAMP_AHEAD_NS


def is_stamped_ahead(status: AnyStatus, now_ns: int) -> bool:
    """Whether a file on its way was published with a delay that is not over yet.

    The stamp is set on the file before it has a name; the link sets ctime, so a later mtime was
    meant. An ordinary file's mtime is that of its last write, before the link.
    """
    stamp = status.st_mtime_ns
    return stamp > status.st_ctime_ns and not is_due(stamp, now_ns)


def round_up(time_ns: int, granularity_ns: int) -> int:
    """The first instant at or after `time_ns` that the file system can keep."""
    return -(-time_ns // granularity_ns) * granularity_ns


def measure(files: Files, fd: int, most: int | None = None) -> tuple[int, int]:
    """Length in bytes and CRC-32 of a whole file, or of its first `most` bytes."""
    length = crc32 = 0
    while chunk := files.read(
        fd, CHUNK_BYTES if most is None else min(CHUNK_BYTES, most - length), length
    ):
        crc32 = zlib.crc32(chunk, crc32)
        length += len(chunk)
    return length, crc32


def unless_unreadable(read: Callable[[], T]) -> T | None:
    """What `read` returns; None if it fails with EIO twice. Other errors pass: ESTALE, EINTR and
    EMFILE say nothing about the file."""
    for _ in range(2):
        try:
            return read()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
    return None
