"""Hold, read or move a message by one chain of file calls. `held` makes the same calls one after
the other, and takes over whenever something is unusual."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from mq.disk.calls import (
    ATTRIBUTE,
    CLOSE,
    LOCK,
    OPEN_MESSAGE,
    READ,
    STATUS,
    STATUS_OF,
    Chain,
    Outcome,
)
from mq.disk.file_work import FileCalls, FileWork
from mq.disk.status import INODE, Status
from mq.lifecycle import Folder
from mq.spool.message.burial import DEAD_ATTRIBUTE
from mq.spool.message.held import NO_FD, Held, Lost, content_type_of, hold_in
from mq.spool.message.seal import SEAL_ATTRIBUTE, TYPE_ATTRIBUTE, Seal
from mq.spool.message.trailer import Content, split
from mq.spool.spool import Spool

_STATUS, _STATUS_OF, _SEAL, _READ = 2, 3, 4, 5
"""The positions of these calls in the chain."""

_LOST_AT_OPEN = {
    errno.ENOENT: Lost.GONE,
    errno.ENOTDIR: Lost.GONE,
    errno.ELOOP: Lost.FOREIGN,
    errno.ENXIO: Lost.FOREIGN,
}
_LOST_LATER = {errno.ENOENT: Lost.GONE, errno.EWOULDBLOCK: Lost.BUSY}

_LOCK_IT = (LOCK, ~0)
_ASK_STATUS = (STATUS, ~0)
_READ_SEAL = (ATTRIBUTE, ~0, SEAL_ATTRIBUTE)


class Read(NamedTuple):
    """What was read of a message while it was opened: all of a small file, or None if that fails
    its seal; its content type; and the attribute for `burial_in`."""

    content: Content | None
    content_type: str | None = None
    burial: bytes | None = None


class OpenedMessage(NamedTuple):
    """A message under its lock, and what was read of it, if anything."""

    held: Held
    read: Read | None = None


def open_held(spool: Spool, folder: Folder, name: str) -> FileWork[Held | Lost]:
    """Open a message and take its lock as `hold_in` does. Raises OSError."""
    try:
        fd, bare, _keeper = spool.at(folder, name)
    except (FileNotFoundError, NotADirectoryError):
        return Lost.GONE
    outcome = yield FileCalls(spool.files, holding(fd, bare))
    return held_by(spool, folder, name, outcome)


def holding(folder_fd: int, name: str) -> Chain:
    """Return the calls of `open_held`. Their results are a descriptor, None, the fields of a
    `Status` for the file and for what has its name, and the seal."""
    return (
        (OPEN_MESSAGE, folder_fd, name),
        _LOCK_IT,
        _ASK_STATUS,
        (STATUS_OF, folder_fd, name),
        _READ_SEAL,
    )


def held_by(spool: Spool, folder: Folder, name: str, outcome: Outcome) -> Held | Lost:
    """Return what `open_held` returns, from the outcome of its calls. Raises OSError."""
    results, code = outcome
    return _held(spool, folder, name, results, code)


def move_held(
    spool: Spool, source: Folder, held: Held, target: Folder, target_name: str
) -> FileWork[bool]:
    """Move a held message, and close it. Returns False, with the message still open, if it is gone
    or the queue that it was to go to is gone. Raises FileExistsError, MoveRefused, and OSError."""
    try:
        move, _keepers = spool.move_call(source, held.name, target, target_name)
    except (FileNotFoundError, NotADirectoryError):
        return False
    results, code = yield FileCalls(spool.files, (move, (CLOSE, held.fd)))
    if results:
        held.fd = NO_FD
        return True
    if code != errno.ENOENT:
        raise OSError(code, os.strerror(code), held.name, None, target_name)
    return False


def reading(spool: Spool, folder_fd: int, name: str, limit: int) -> Chain:
    """Return the calls that open a message and take its lock as `open_held` does, and read a file
    of up to `limit` bytes. Their results are a descriptor, None, the fields of a `Status` for the
    file and for what has its name, the seal, all of the file or None, and, where there are seals,
    the attributes for type and burial."""
    return holding(folder_fd, name) + _content_calls(limit, spool.has_seals)


def readings(spool: Spool, folder_fd: int, names: Sequence[str], limit: int) -> list[Chain]:
    """Return the calls of `reading` for several messages."""
    content = _content_calls(limit, spool.has_seals)
    return [holding(folder_fd, name) + content for name in names]


def lost_in(outcome: Outcome) -> Lost | None:
    """Return why the calls of `open_held` or `reading` lost a race, after which nothing that
    they opened is open. Returns None if they lost none."""
    results, code = outcome
    lost = _lost_at(len(results), code) if code else None
    return None if lost is Lost.FOREIGN else lost


def opened_by(spool: Spool, folder: Folder, name: str, outcome: Outcome) -> OpenedMessage | Lost:
    """Return a message with what the calls of `reading` read of it. `read` is None if the file is
    larger than their limit, or could be read only at the second try. Raises OSError."""
    results, code = outcome
    held = _held(spool, folder, name, results, code)
    if isinstance(held, Lost):
        return held
    if code:
        return OpenedMessage(held, _read_again(spool, held))
    data = results[_READ]
    if data is None:
        return OpenedMessage(held)
    content = split(held.seal, data)
    if not spool.has_seals:
        return OpenedMessage(held, Read(content))
    kind, burial = results[-2:]
    return OpenedMessage(held, Read(content, content_type_of(kind), burial))


# Calls that do not depend on the message are made once.


@lru_cache(maxsize=16)
def _content_calls(limit: int, has_seals: bool) -> Chain:
    content = (READ, ~0, _STATUS, limit)
    attributes = (ATTRIBUTE, ~0, TYPE_ATTRIBUTE), (ATTRIBUTE, ~0, DEAD_ATTRIBUTE)
    return (content, *attributes) if has_seals else (content,)


def _held(spool: Spool, folder: Folder, name: str, results: list[Any], code: int) -> Held | Lost:
    if code:
        return _after_failure(spool, folder, name, results, code)
    status, named = Status._make(results[_STATUS]), Status._make(results[_STATUS_OF])
    # As in `hold`: the status of the descriptor may be from before another host stamped the file.
    held = Held(spool.files, name, results[0], named, Seal.unpack(results[_SEAL]))
    why = _why_lost(spool, status, named)
    if why is None:
        return held
    held.close()
    return why


def _why_lost(spool: Spool, status: Status, named: tuple[int, ...]) -> Lost | None:
    if not stat.S_ISREG(status.st_mode) or status.st_uid not in spool.files.owners:
        return Lost.FOREIGN
    return None if named[INODE] == status.st_ino else Lost.GONE


def _after_failure(
    spool: Spool, folder: Folder, name: str, results: list[Any], code: int
) -> Held | Lost:
    """Do what `hold_in` does after a call of the chain has failed; `code` is the errno of the call
    after the last result."""
    at = len(results)
    lost = _lost_at(at, code)
    if lost is not None:
        return lost
    if at > _STATUS_OF:
        why = _why_lost(spool, Status._make(results[_STATUS]), results[_STATUS_OF])
        if why is not None:
            return why
    if at != _READ or code != errno.EIO:
        raise OSError(code, os.strerror(code), name)
    return hold_in(spool, folder, name)


def _lost_at(at: int, code: int) -> Lost | None:
    """Return what a failure of call `at` with that errno means, if the two alone say it."""
    if at > _STATUS_OF:
        return None
    return _LOST_LATER.get(code) if at else _LOST_AT_OPEN.get(code)


def _read_again(spool: Spool, held: Held) -> Read | None:
    """Read again after an EIO, which counts as damage only if it lasts. Returns None if nothing is
    wrong."""
    try:
        spool.files.read(held.fd, held.status.st_size)
    except OSError as error:
        if error.errno == errno.EIO:
            return Read(None)
        held.close()
        raise
    return None
