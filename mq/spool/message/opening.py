"""Hold, read or move a message by one chain of file calls, made with those of others."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from mq.disk.calls import (
    ATTRIBUTE,
    CLOSE,
    READ,
    Chain,
    Outcome,
)
from mq.disk.file_work import FileCalls, FileWork
from mq.lifecycle import Folder
from mq.spool.message.burial import DEAD_ATTRIBUTE
from mq.spool.message.held import (
    NO_FD,
    Held,
    Lost,
    content_type_of,
    held_by,
    hold_in,
    holding,
    lost_at,
)
from mq.spool.message.seal import TYPE_ATTRIBUTE
from mq.spool.message.trailer import Content, split
from mq.spool.spool import Spool

_STATUS, _READ = 2, 5
"""The positions of these calls in the chain of `reading`."""


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
    return held_by(spool.files, name, outcome)


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
    """Return the calls that open a message and take its lock as `hold` does, and read a file
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
    lost = lost_at(len(results), code) if code else None
    return None if lost is Lost.FOREIGN else lost


def opened_by(spool: Spool, folder: Folder, name: str, outcome: Outcome) -> OpenedMessage | Lost:
    """Return a message with what the calls of `reading` read of it. `read` is None if the file is
    larger than their limit, or could be read only at the second try. Raises OSError."""
    results, code = outcome
    if code == errno.EIO and len(results) == _READ:
        held = hold_in(spool, folder, name)
    else:
        held = held_by(spool.files, name, outcome)
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
