"""The folders of purged messages: one for each queue, with a part for each purge.

    remove/QUEUE:.purged/N.open/    a purge is filling it, and holds its lock
    remove/QUEUE:.purged/N/         the purge is over: now the reaper may have it

A message in a part has the name that it had before, `QUEUE:ID` or `ID`. A server that removes or
prolongs a message does not look there, so the receiver learns that it is gone; but its id stays
known, like that of every removed message, until the reaper comes. A crash leaves an open part whose
lock is free, and a sweep closes it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.message.held import Lost
from mq.spool.sets import OPEN_SUFFIX, hold_set, make_set
from mq.spool.spool import Spool

PURGED_SUFFIX = ":.purged"

_LARGEST_NUMBER = 10**18
"""The largest number of a part, in ASCII digits. Anything else in the folder is not a part, and is
left alone."""

_TRIES = 100
"""How many times to try while other purges take the number, or the queue's deletion takes the
folder."""


class OpenPart(NamedTuple):
    """A part that is being filled: its name from `remove` on, and the descriptor with its lock."""

    name: str
    fd: int


def open_part(spool: Spool, queue: QueueName) -> OpenPart:
    """Make a part and take its lock. Raises OSError."""
    folder = queue + PURGED_SUFFIX
    for tried in range(_TRIES):
        spool.make_folders(Folder.REMOVE, folder)
        try:
            number = _next_number(spool.names_below(Folder.REMOVE, folder))
            name = f"{folder}/{number + tried}{OPEN_SUFFIX}"
            fd = make_set(spool, Folder.REMOVE, name)
        except (FileExistsError, FileNotFoundError):
            continue
        except NotADirectoryError:
            # NotADirectoryError would mean that there is no such queue.
            why = f"{Folder.REMOVE}/{folder} is not a folder: move it away"
            raise FileExistsError(errno.EEXIST, why) from None
        if not isinstance(fd, Lost):
            return OpenPart(name, fd)
    raise BlockingIOError(f"the folder {Folder.REMOVE}/{folder} changes all the time")


def close_part(spool: Spool, part: OpenPart) -> None:
    """Leave a part to the reaper. The part may be gone with its queue, and its name be that of a
    part of another purge."""
    try:
        if spool.inode(Folder.REMOVE, part.name) == spool.files.inode(part.fd):
            _hand_over(spool, part.name)
    finally:
        spool.files.close(part.fd)


def close_abandoned(spool: Spool) -> int:
    """Close the parts that dead processes have left open, and return how many there were. A queue
    whose parts cannot be closed keeps no other's open. Raises OSError, which names the first."""
    closed, failed = 0, None
    for folder in spool.names(Folder.REMOVE):
        try:
            closed += _close_parts(spool, folder)
        except OSError as error:
            why = f"{Folder.REMOVE}/{folder} cannot be left to the reaper: {error.strerror}"
            failed = failed or OSError(error.errno, why)
    if failed is not None:
        raise failed
    return closed


def _close_parts(spool: Spool, folder: str) -> int:
    closed = 0
    for part in parts_of(spool, folder):
        if not part.endswith(OPEN_SUFFIX):
            continue
        fd = hold_set(spool, Folder.REMOVE, part)
        if not isinstance(fd, Lost):
            close_part(spool, OpenPart(part, fd))
            closed += 1
    return closed


def parts_of(spool: Spool, folder: str) -> Iterator[str]:
    """Yield the parts, open or closed, in `QUEUE:.purged`, each by its name from `remove` on; none
    for a folder of another kind."""
    if folder.endswith(PURGED_SUFFIX):
        for entry in spool.names_if_any(Folder.REMOVE, folder):
            if _number_of(entry) is not None:
                yield f"{folder}/{entry}"


def places_in(parts: Iterable[str], queue: QueueName) -> Iterator[str]:
    """Yield what comes before the id in the paths where a message may lie in these parts. A part
    may be closed meanwhile."""
    for part in parts:
        for name in dict.fromkeys((part, part.removesuffix(OPEN_SUFFIX))):
            yield f"{name}/"
            yield f"{name}/{queue}:"


def _hand_over(spool: Spool, name: str) -> None:
    folder, _, entry = name.rpartition("/")
    number = _number_of(entry)
    assert number is not None
    for _ in range(_TRIES):
        try:
            spool.rename_within(Folder.REMOVE, name, f"{folder}/{number}")
        except FileExistsError:
            number += 1
            continue
        except FileNotFoundError:
            pass
        return


def _next_number(names: Iterable[str]) -> int:
    """Return a number that leaves room for others above it. Another name may have it all the same,
    if a person has made it."""
    numbers = [number for name in names if (number := _number_of(name)) is not None]
    return max((each for each in numbers if each < _LARGEST_NUMBER // 2), default=0) + 1


def _number_of(entry: str) -> int | None:
    """Return the number of a part, open or closed, or None if that is not the name of one."""
    digits = entry.removesuffix(OPEN_SUFFIX)
    is_number = digits.isascii() and digits.isdigit() and int(digits) < _LARGEST_NUMBER
    return int(digits) if is_number else None
