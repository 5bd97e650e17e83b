"""One message, one lock: the seal, the due stamp, and every step that needs the lock.

Whoever stamps a message, or moves it because of its stamp or place, calls `hold` first: it opens
the file, takes its lock without waiting, and checks that the name still leads to that file. Stamp
and lease are read after that, written, and the rename follows while the lock is held.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import zlib
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from mq.config import CHUNK_BYTES, MAX_STAMP_AHEAD_NS
from mq.lifecycle import Folder
from mq.names import QueueName, dead_letter_queue, parse_file_name, queue_path
from mq.spool.files import Files
from mq.spool.folders import Spool
from mq.spool.queues import has_queue, make_queue

SEAL_ATTRIBUTE = "user.mq"
TYPE_ATTRIBUTE = "user.mime_type"
NO_LEASE = 0

FAULTS_OF_ONE_MESSAGE = {
    errno.EACCES,  # a file that somebody else put there
    errno.EPERM,
    errno.EEXIST,  # `delay` has another file of that name, and no move replaces
    errno.EBADMSG,  # the file system found its own metadata damaged
    errno.EUCLEAN,
}
"""Errors that say something about one file; any other one is about the disk."""

T = TypeVar("T")

_SEAL = struct.Struct(">QIQIQ")


class Seal(NamedTuple):
    """The extended attribute `user.mq`: 32 bytes, big-endian, in this order.

    `length` in bytes (8), `crc32` of the body (4), `published_ns` since 1970 (8),
    `receive_count` (4), `lease` (8; 0 for none).
    """

    length: int
    crc32: int
    published_ns: int
    receive_count: int
    lease: int

    def pack(self) -> bytes:
        return _SEAL.pack(*self)

    @classmethod
    def unpack(cls, data: bytes | None) -> Seal | None:
        """None for an absent attribute or one that is not a seal: the file is taken as whole."""
        if data is None or len(data) != _SEAL.size:
            return None
        return cls._make(_SEAL.unpack(data))


class Lost(Enum):
    """Why a message could not be held."""

    GONE = "the name leads nowhere, or to another file by now"
    BUSY = "somebody else holds the lock"
    FOREIGN = "no regular file, or another user's: not a message; chown it if it is one"


class Held:
    """A message open under its lock, which ends with `close` or the `with` block."""

    __slots__ = ("_files", "fd", "name", "seal", "status")

    def __init__(self, files: Files, name: str, fd: int, status: os.stat_result) -> None:
        self._files = files
        self.name = name
        self.fd = fd
        self.status = status
        self.seal = Seal.unpack(files.attribute(fd, SEAL_ATTRIBUTE))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._files.close(self.fd)

    @property
    def lease(self) -> int:
        """The current lease; where the file system has no seals, the due stamp."""
        return self.status.st_mtime_ns if self.seal is None else self.seal.lease

    def write_seal(self, seal: Seal) -> None:
        self._files.set_attribute(self.fd, SEAL_ATTRIBUTE, seal.pack())
        self.seal = seal

    def content_type(self) -> str | None:
        """None also for one that a person wrote and no header can carry."""
        value = self._files.attribute(self.fd, TYPE_ATTRIBUTE)
        text = "" if value is None else value.decode("latin-1")
        return text if text.isprintable() and text else None


def hold(files: Files, folder_fd: int, name: str) -> Held | Lost:
    """Open a message and take its lock, without waiting."""
    try:
        fd = files.open_message(folder_fd, name)
    except FileNotFoundError:
        return Lost.GONE
    except OSError as error:
        # A link or a socket; a plain file where the queue's folder was.
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return Lost.FOREIGN
        if error.errno == errno.ENOTDIR:
            return Lost.GONE
        raise
    try:
        held = _lock_and_check(files, folder_fd, name, fd)
    except BaseException:
        files.close(fd)
        raise
    if isinstance(held, Lost):
        files.close(fd)
    return held


def _lock_and_check(files: Files, folder_fd: int, name: str, fd: int) -> Held | Lost:
    if not files.lock(fd):
        return Lost.BUSY
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid not in files.owners:
        return Lost.FOREIGN
    try:
        named = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return Lost.GONE
    return Held(files, name, fd, status) if named.st_ino == status.st_ino else Lost.GONE


def due_ns(status: os.stat_result, delay_ns: int) -> int:
    """When a file in `delay` is due, in ns since 1970.

    Its mtime if that is later than its ctime: a rename sets ctime, so somebody stamped it on
    purpose, just before. Else ctime plus `delay_ns`.
    """
    if status.st_mtime_ns > status.st_ctime_ns:
        return status.st_mtime_ns
    return status.st_ctime_ns + delay_ns


def is_due(due: int, now_ns: int) -> bool:
    """Also when the stamp is so far ahead that only a broken clock can have made it."""
    return due <= now_ns or due > now_ns + MAX_STAMP_AHEAD_NS


def is_stamped_ahead(status: os.stat_result, now_ns: int) -> bool:
    """Whether a file on its way was published with a delay that is not over yet.

    The stamp is set on the file before it has a name; the link sets ctime, so a later mtime was
    meant. An ordinary file's mtime is that of its last write, before the link.
    """
    stamp = status.st_mtime_ns
    return stamp > status.st_ctime_ns and not is_due(stamp, now_ns)


def round_up(time_ns: int, granularity_ns: int) -> int:
    """The first instant at or after `time_ns` that the file system can keep."""
    return -(-time_ns // granularity_ns) * granularity_ns


def new_lease() -> int:
    return int.from_bytes(os.urandom(8)) or 1


def read_body(held: Held, files: Files) -> bytes | None:
    """A small body; None if it fails its seal, or cannot be read (a lasting EIO)."""
    body = _unless_unreadable(lambda: files.read(held.fd, held.status.st_size))
    if body is None or held.seal is None:
        return body
    is_whole = len(body) == held.seal.length and zlib.crc32(body) == held.seal.crc32
    return body if is_whole else None


def fails_its_seal(held: Held, files: Files) -> bool:
    """Whether the file is damaged: a mismatch after a whole read, or a lasting EIO."""
    if held.seal is None:
        return False
    return measure_twice(files, held.fd) != (held.seal.length, held.seal.crc32)


def measure_twice(files: Files, fd: int) -> tuple[int, int] | None:
    """Like `measure`; None if the file cannot be read (a lasting EIO)."""
    return _unless_unreadable(lambda: measure(files, fd))


def measure(files: Files, fd: int) -> tuple[int, int]:
    """Length in bytes and CRC-32 of a whole file."""
    length = crc32 = 0
    while chunk := files.read(fd, CHUNK_BYTES, length):
        crc32 = zlib.crc32(chunk, crc32)
        length += len(chunk)
    return length, crc32


def _unless_unreadable(read: Callable[[], T]) -> T | None:
    """What `read` returns; None if it fails with EIO twice. Other errors pass: ESTALE, EINTR and
    EMFILE say nothing about the file."""
    for _ in range(2):
        try:
            return read()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
    return None


def set_aside(spool: Spool, folder: Folder, held: Held) -> None:
    """Move a damaged message to `corrupt`, where a person finds it."""
    spool.move_aside(folder, held.name, Folder.CORRUPT, held.name.replace("/", ":", 1))


def redeliver(
    files: Files, held: Held, source_fd: int, queues_fd: int, max_receives: int = 0
) -> QueueName | None:
    """Move a message `QUEUE:ID` to its queue, or to the dead letters; returns which one it is.

    With `max_receives` N above 0, a message received N times goes to `QUEUE.dead`, made when
    needed, never out of a `.dead` queue. None if the message stays where it is: it is gone, or
    its queue is. Raises FileExistsError if the queue has another file of that name; nothing is
    replaced.
    """
    parsed = parse_file_name(held.name)
    assert parsed is not None
    queue, message_id = parsed
    received = held.seal.receive_count if held.seal is not None else 0
    dead = dead_letter_queue(queue) if 0 < max_receives <= received else None
    if dead is not None and has_queue(queues_fd, queue):
        make_queue(files, queues_fd, dead)
        queue = dead
    try:
        files.rename(source_fd, held.name, queues_fd, queue_path(queue, message_id))
    except FileNotFoundError:
        return None
    return queue
