"""One message, one lock: the seal, the due stamp, and every step that needs the lock.

Before code stamps a message, or moves it because of its stamp or place, it calls `hold`: that opens
the file, takes its lock without waiting, and checks that the name still leads to that file. Stamp
and lease are read after that, written, and the rename follows while the lock is held.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from enum import Enum
from typing import Any, NamedTuple, Self

from mq.disk.calls import ATTRIBUTE, LOCK, OPEN_MESSAGE, STATUS, STATUS_OF, Chain, Outcome, run_one
from mq.disk.files import Files
from mq.disk.status import INODE, MODE, OWNER, AnyStatus, Status
from mq.lifecycle import Folder
from mq.spool.disk_errors import NO_MESSAGE
from mq.spool.message.burial import DEAD_ATTRIBUTE
from mq.spool.message.checksum import measure
from mq.spool.message.seal import SEAL_ATTRIBUTE, TYPE_ATTRIBUTE, Seal, published_ns
from mq.spool.message.trailer import Content, read_at_once, read_long
from mq.spool.spool import Spool

NO_FD = -1

_STATUS, _STATUS_OF, _SEAL = 2, 3, 4
"""The positions of these calls among those of `holding`."""

_LOCK_IT = (LOCK, ~0)
_ASK_STATUS = (STATUS, ~0)
_READ_SEAL = (ATTRIBUTE, ~0, SEAL_ATTRIBUTE)


class Lost(Enum):
    """Why a message could not be held."""

    GONE = "the name leads nowhere, or to another file by now"
    BUSY = "another process holds the lock"
    FOREIGN = "no regular file, or another user's: not a message; chown it if it is one"


_LOST_AT_OPEN = {
    errno.ENOENT: Lost.GONE,
    errno.ENOTDIR: Lost.GONE,
    errno.ELOOP: Lost.FOREIGN,
    errno.ENXIO: Lost.FOREIGN,
}
_LOST_LATER = {errno.ENOENT: Lost.GONE, errno.EWOULDBLOCK: Lost.BUSY}


class Sum(NamedTuple):
    """What tells bodies and properties apart: lengths in bytes and CRC-32s of body and trailer."""

    length: int
    crc32: int
    trailer_length: int = 0
    trailer_crc32: int = 0


class Opened:
    """One reading of a message: its open file, and the status and seal that it had when it was
    opened. Other processes may still move or change it. It is closed by `close` or at the end of
    the `with` block."""

    __slots__ = ("_files", "fd", "name", "seal", "status")

    def __init__(
        self, files: Files, name: str, fd: int, status: AnyStatus, seal: Seal | None
    ) -> None:
        self._files = files
        self.name = name
        self.fd = fd
        self.status = status
        self.seal = seal

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Does nothing if `fd` is NO_FD: it is closed already."""
        if self.fd != NO_FD:
            self._files.close(self.fd)

    @property
    def lease(self) -> int:
        """The current lease, or the due stamp where the file system has no seals."""
        return self.status.st_mtime_ns if self.seal is None else self.seal.lease

    @property
    def receive_count(self) -> int:
        return 0 if self.seal is None else self.seal.receive_count

    def published_ns(self, message_id: str) -> int:
        """Return the publication time in ns since 1970."""
        return published_ns(self.seal, self.status, message_id)

    def content_type(self) -> str | None:
        """Return the content type, or None. One that a person wrote and no header can carry counts
        as none."""
        return content_type_of(self._files.attribute(self.fd, TYPE_ATTRIBUTE))

    def may_have_type(self) -> bool:
        """Whether the message may have a content type. Most have none, and a list of all attributes
        costs less than an error for each message."""
        return TYPE_ATTRIBUTE in _attribute_names(self.fd)

    def type_and_burial(self) -> tuple[str | None, bytes | None]:
        """Return content type and burial attribute, for `burial_in`. Most messages have neither."""
        names = _attribute_names(self.fd)
        return (
            self.content_type() if TYPE_ATTRIBUTE in names else None,
            self._files.attribute(self.fd, DEAD_ATTRIBUTE) if DEAD_ATTRIBUTE in names else None,
        )

    @property
    def length(self) -> int:
        """The length of the body in bytes, as the seal says, or else as the file says."""
        return self.status.st_size if self.seal is None else self.seal.length

    def is_as_long_as_sealed(self) -> bool:
        return self.seal is None or self.seal.file_length == self.status.st_size

    def sum(self) -> Sum:
        """Return lengths and checksums. The file is read if it has no seal."""
        seal = self.seal
        if seal is None:
            return Sum(*measure(self._files, self.fd))
        return Sum(seal.length, seal.crc32, seal.trailer_length, seal.trailer_crc32)


def may_be_message(files: Files, status: AnyStatus) -> bool:
    """Return whether a file is a regular one that belongs to this user or to root."""
    return stat.S_ISREG(status.st_mode) and status.st_uid in files.owners


def _attribute_names(fd: int) -> list[str]:
    """Return the names of a file's attributes, and none where the file system has no attributes.
    This takes half the time of asking for one that does not exist."""
    try:
        return os.listxattr(fd)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return []
        raise


class Held(Opened):
    """A message open under its lock, which ends when it is closed."""

    __slots__ = ()

    def write_seal(self, seal: Seal) -> None:
        self._files.set_attribute(self.fd, SEAL_ATTRIBUTE, seal.pack())
        self.seal = seal


def seal_of(files: Files, fd: int) -> Seal | None:
    """Return the seal of an open file, or None if it has none. Raises OSError."""
    return Seal.unpack(files.attribute(fd, SEAL_ATTRIBUTE))


def content_type_of(value: bytes | None) -> str | None:
    """Return what the value of the attribute says, as `Opened.content_type` does."""
    if value is None:
        return None
    text = value.decode("latin-1")
    return text if text.isprintable() and text else None


def look_at(spool: Spool, folder: Folder, name: str) -> Opened | None:
    """Open a message without its lock, only to look at it; a receiver would skip one that is
    locked. Its access time stays. Returns None if it is gone or is not a message: not a regular
    file, or another user's. Raises OSError."""
    try:
        folder_fd, bare, _keeper = spool.at(folder, name)
        fd = spool.files.open_to_look(folder_fd, bare)
    except OSError as error:
        if error.errno in NO_MESSAGE:
            return None
        raise
    opened = None
    try:
        status = os.fstat(fd)
        if may_be_message(spool.files, status):
            opened = Opened(spool.files, name, fd, status, seal_of(spool.files, fd))
        return opened
    finally:
        if opened is None:
            spool.files.close(fd)


def seal_at(spool: Spool, folder: Folder, name: str) -> Seal | None:
    """Return the seal of a message without opening it, or None if it has none. This takes a third
    of the time of `look_at`. Raises what `spool.at` raises, and OSError."""
    fd, bare, _keeper = spool.at(folder, name)
    path = f"/proc/self/fd/{fd}/{bare}"
    return Seal.unpack(spool.files.attribute(path, SEAL_ATTRIBUTE))


def hold(files: Files, folder_fd: int, name: str) -> Held | Lost:
    """Open a message and take its lock, without waiting. Raises OSError."""
    return held_by(files, name, run_one(files, holding(folder_fd, name)))


def hold_in(spool: Spool, folder: Folder, name: str) -> Held | Lost:
    """Open a message and take its lock as `hold` does, in a folder of the root or of a queue."""
    try:
        fd, bare, _keeper = spool.at(folder, name)
    except (FileNotFoundError, NotADirectoryError):
        return Lost.GONE
    return held_by(spool.files, name, run_one(spool.files, holding(fd, bare)))


def holding(folder_fd: int, name: str) -> Chain:
    """Return the calls of `hold`. Their results are a descriptor, None, the fields of a `Status`
    for the file and for what has its name, and the seal."""
    return (
        (OPEN_MESSAGE, folder_fd, name),
        _LOCK_IT,
        _ASK_STATUS,
        (STATUS_OF, folder_fd, name),
        _READ_SEAL,
    )


def held_by(files: Files, name: str, outcome: Outcome) -> Held | Lost:
    """Return what `hold` returns, from the outcome of its calls, or of a chain that begins with
    them. Raises OSError."""
    results, code = outcome
    if code and (lost := lost_at(len(results), code)) is not None:
        return lost
    why = _why_lost(files, results) if len(results) > _STATUS_OF else None
    if code:
        if why is None:
            raise OSError(code, os.strerror(code), name)
        return why
    if why is not None:
        files.close(results[0])
        return why
    # The status of the name was asked for after the lock was taken; the descriptor's may be one
    # that this host has cached, from before another host stamped the file.
    named = Status._make(results[_STATUS_OF])
    return Held(files, name, results[0], named, Seal.unpack(results[_SEAL]))


def lost_at(number: int, code: int) -> Lost | None:
    """Return what it means that this call of `holding` failed with that errno, if the two alone say
    it."""
    if number > _STATUS_OF:
        return None
    return _LOST_LATER.get(code) if number else _LOST_AT_OPEN.get(code)


def _why_lost(files: Files, results: Sequence[Any]) -> Lost | None:
    status = results[_STATUS]
    if not stat.S_ISREG(status[MODE]) or status[OWNER] not in files.owners:
        return Lost.FOREIGN
    return None if results[_STATUS_OF][INODE] == status[INODE] else Lost.GONE


def read_content(opened: Opened, files: Files) -> Content | None:
    """Return all of a small file; None if it fails its seal or cannot be read (a lasting EIO)."""
    return read_at_once(files, opened.fd, opened.status.st_size, opened.seal)


def fails_its_seal(opened: Opened, files: Files) -> bool:
    """Return whether the file is damaged: it does not match its seal after a whole read, or cannot
    be read (a lasting EIO)."""
    seal = opened.seal
    return seal is not None and read_long(files, opened.fd, seal) is None


def set_aside(spool: Spool, folder: Folder, held: Held, wait_seconds: float = 0.0) -> str | None:
    """Move a damaged message to `corrupt`, where a person finds it, and return its name there.
    Returns None if it is gone, or another message has its name by now: to read it took a while, and
    a deletion of its queue ends its id. Raises BlockingIOError if another process has the queue to
    itself for that long."""
    flat = held.name.replace("/", ":", 1)
    with ExitStack() as stack:
        with suppress(FileNotFoundError, NotADirectoryError):  # Then nobody publishes to it.
            stack.enter_context(spool.queues.shared(flat.partition(":")[0], wait_seconds))
        if spool.inode(folder, held.name) != held.status.st_ino:
            return None
        return spool.move_aside(folder, held.name, Folder.CORRUPT, flat)
