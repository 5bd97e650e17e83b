"""Sets: messages that are published, staged or claimed together, all of them or none.

    make          FOLDER/OPEN/            its owner holds the folder's lock from here to the end
    fill          OPEN/QUEUE:ID           linked from unnamed files, or renamed out of a queue
    (barrier)                             the data of what was linked is durable
    seal          OPEN -> SEALED          one rename that does not replace: now all of it counts
    (barrier)                             the seal is durable; from here on the set is a promise
    roll forward  SEALED/QUEUE:ID -> queues/QUEUE/ID, or delay/QUEUE:ID; then the folder goes

Two barriers, because names are one ordered log and data is not: with one alone a power cut could
keep the seal and tear a member, and the others could not be taken back. What is only renamed has no
new data; there the second barrier is enough, because it covers every earlier change of names.

A crash leaves an open set, of which no client was told and which is given up, or a sealed one,
which the process that finds it rolls forward from where that stopped. A set whose lock is held has
a living owner and is left alone. A member of a sealed set that fails its seal was damaged after
that: only this one is lost.

Sets live in any folder of the root, at any depth; members may lie in folders of a set, as
`PART/QUEUE:ID`. Every path begins at FOLDER, never at the set's own descriptor: so a set that
another process has renamed, to fence its owner off, takes no more members.

`mq.spool.rolling` rolls a set forward.
"""

from __future__ import annotations

import stat

from mq.disk.files import HIDDEN
from mq.lifecycle import Folder
from mq.names import QueueName, parse_file_name
from mq.spool.message.held import Lost
from mq.spool.spool import Spool

OPEN_SUFFIX = ".open"


def make_set(spool: Spool, folder: Folder, name: str) -> int | Lost:
    """Make an open set below an existing folder. Returns the descriptor that holds its lock, or
    Lost.BUSY if a sweep saw it before it was locked and may give it up: make another one. Raises
    FileExistsError.
    """
    spool.files.make_folder(spool.fd(folder), name, spool.mode)
    fd = hold_set(spool, folder, name)
    return Lost.BUSY if isinstance(fd, Lost) else fd


def hold_set(spool: Spool, folder: Folder, name: str) -> int | Lost:
    """Take a set's lock without waiting. Returns the descriptor that holds it until it is closed.

    The lock stays with the folder when that is renamed.
    """
    try:
        fd = spool.files.open_folder(spool.fd(folder), name)
    except FileNotFoundError:
        return Lost.GONE
    except NotADirectoryError:
        return Lost.FOREIGN
    lost: Lost | None = Lost.BUSY
    try:
        if spool.files.lock(fd):
            is_ours = spool.inode(folder, name) == spool.files.inode(fd)
            lost = None if is_ours else Lost.GONE
    finally:
        if lost is not None:
            spool.files.close(fd)
    return fd if lost is None else lost


def seal_set(spool: Spool, folder: Folder, name: str, sealed: str) -> None:
    """Make all of an open set count, in one step. This is not durable by itself: the caller syncs.

    Raises FileExistsError if there is a set `sealed`, FileNotFoundError if the open one is gone.
    """
    spool.rename_within(folder, name, sealed)


def members(spool: Spool, folder: Folder, name: str) -> list[str]:
    """Return the names of a set's members, sorted, from the set's folder on: `QUEUE:ID`,
    `PART/QUEUE:ID`.

    Other names are left out. Raises FileNotFoundError if there is no such set.
    """
    found = []
    for entry in spool.names_below(folder, name):
        if parse_file_name(entry) is not None:
            found.append(entry)
        elif not entry.startswith(HIDDEN) and _is_folder(spool, folder, f"{name}/{entry}"):
            inside = spool.names_below(folder, f"{name}/{entry}")
            found += [f"{entry}/{each}" for each in inside if parse_file_name(each) is not None]
    return sorted(found)


def members_of_queue(spool: Spool, folder: Folder, name: str, queue: QueueName) -> list[str]:
    """Return the names of a queue's messages in a set without parts: none if it is gone, or what
    has its name is not a folder. Raises OSError."""
    return [each for each in spool.names_if_any(folder, name) if each.startswith(f"{queue}:")]


def remove_empty_set(spool: Spool, folder: Folder, name: str) -> None:
    """Remove the folder of a set whose members are gone. Does nothing if something is in it."""
    try:
        for entry in spool.names_below(folder, name):
            spool.files.remove_folder(spool.fd(folder), f"{name}/{entry}")
        spool.files.remove_folder(spool.fd(folder), name)
    except OSError:
        # A person put a file into it, or it is gone already.
        pass


def _is_folder(spool: Spool, folder: Folder, name: str) -> bool:
    status = spool.status(folder, name)
    return status is not None and stat.S_ISDIR(status.st_mode)
