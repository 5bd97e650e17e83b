"""Bring messages of `spark` to their queues, and decide what becomes of those that find no place
there.

    the queue takes it            it is ready, or in `delay` under its stamp
    there is no such queue        it is removed: its queue was deleted, and all its messages with it
    the queue was made since      the same: the queue of that name is another one
    the queue has that id         it is removed if the bodies are equal, else it goes to `corrupt`
    it is not a file              it goes to `corrupt`
    the disk keeps it             it stays, and the next try goes on with it
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from mq.disk.libc import birth_ns
from mq.disk.status import Status
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, parse_file_name, queue_path
from mq.spool.folders import Spool
from mq.spool.message.held import Lost, Sum, look_at
from mq.spool.queue.queue_birth import queue_made_ns
from mq.spool.rolling import PlaceOf, roll_forward
from mq.spool.sets import members, remove_empty_set

_LOOKS = 3
"""How often a member is tried: the message that had the same id can be gone at the next look, and
the place be free."""


class _Settled(Enum):
    GONE = "it is out of the way"
    KEPT_OUT = "another message has its id"
    PLACE_IS_FREE = "what kept it out is gone"


class Brought(NamedTuple):
    """How many members found their place, and those whose id another message of the queue has."""

    placed: int
    kept_out: list[str]


def bring(spool: Spool, path: str, place_of: PlaceOf, witness: Callable[[str], str]) -> Brought:
    """Bring every member of a set below `spark` to its place, then remove its folder if it is
    empty.

    `witness` returns for each member a file that got its name when the member was taken out of its
    queue, or was published: a queue that was made after that is not its queue. The caller holds the
    set. After all members are done, this raises the first OSError that kept one where it is.
    """
    placed, outcomes = 0, dict[str, _Settled]()
    errors: dict[str, OSError] = {}
    try:
        present, waiting = _remove_old(spool, path, witness)
        for _ in range(_LOOKS):
            rolled = roll_forward(spool, Folder.SPARK, path, _unless_waiting(place_of, waiting))
            placed += present - len(rolled.left)
            errors, outcomes = dict(rolled.errors), {}
            for member in [each for each in rolled.left if each not in rolled.errors]:
                try:
                    outcomes[member] = _settle(spool, f"{path}/{member}")
                except OSError as why:
                    errors[member] = why
            if _Settled.PLACE_IS_FREE not in outcomes.values():
                break
            present = len(members(spool, Folder.SPARK, path))
    except FileNotFoundError:
        # Another process was faster.
        return Brought(placed, [])
    remove_empty_set(spool, Folder.SPARK, path)
    for error in errors.values():
        raise error
    if _Settled.PLACE_IS_FREE in outcomes.values():
        raise BlockingIOError(errno.EAGAIN, "a place is taken and free in turns", path)
    return Brought(placed, [each for each in outcomes if outcomes[each] is _Settled.KEPT_OUT])


def _unless_waiting(place_of: PlaceOf, waiting: Mapping[str, OSError]) -> PlaceOf:
    """Return `place_of`, except that the members of the queues in `waiting` stay where they are."""

    def place_or_wait(
        status: Status, queue: QueueName, message_id: MessageId
    ) -> tuple[Folder, str]:
        if (error := waiting.get(queue)) is not None:
            raise OSError(error.errno, error.strerror, queue)
        return place_of(status, queue, message_id)

    return place_or_wait


def _remove_old(
    spool: Spool, path: str, witness: Callable[[str], str]
) -> tuple[int, dict[str, OSError]]:
    """Remove the members whose queue was made after them. Returns how many others there are, and
    the queues of which the disk does not say when they were made."""
    born: dict[QueueName, int | None] = {}
    unknown: dict[str, OSError] = {}
    is_old: dict[tuple[QueueName, str], bool] = {}
    present = members(spool, Folder.SPARK, path)
    removed = 0
    for member in present:
        name, seen = member.rpartition("/")[2], witness(member)
        queue = QueueName(name.partition(":")[0])
        if (queue, seen) not in is_old:
            if queue not in born:
                try:
                    born[queue] = _made_ns(spool, queue)
                except OSError as error:
                    born[queue], unknown[queue] = None, error
            is_old[queue, seen] = _is_before(spool, seen, born[queue])
        if is_old[queue, seen]:
            spool.move_aside(Folder.SPARK, f"{path}/{member}", Folder.REMOVE, name)
            removed += 1
    return len(present) - removed, unknown


def _made_ns(spool: Spool, queue: QueueName) -> int | None:
    """Return when a queue was made, in ns since 1970. Returns None if there is no such queue, or if
    it was changed before it was made: the clock went back, and times say nothing."""
    status = spool.status(Folder.QUEUES, queue)
    made_ns = queue_made_ns(spool, queue)
    if status is None or made_ns is None or status.st_mtime_ns < made_ns:
        return None
    return made_ns


def _is_before(spool: Spool, name: str, made_ns: int | None) -> bool:
    """Return whether a file got its name before `made_ns`: a rename and a link set its ctime. A
    file that was written before it was made is a copy, for example of a whole root, and its times
    say nothing."""
    status = None if made_ns is None else spool.status(Folder.SPARK, name)
    if made_ns is None or status is None or status.st_ctime_ns >= made_ns:
        return False
    own_ns = birth_ns(spool.path(Folder.SPARK, name))
    return own_ns is not None and status.st_mtime_ns >= own_ns


def _settle(spool: Spool, source: str) -> _Settled:
    parsed = parse_file_name(source.rpartition("/")[2])
    status = spool.status(Folder.SPARK, source)
    if parsed is None or status is None:
        return _Settled.GONE
    name = file_name(*parsed)
    if not stat.S_ISREG(status.st_mode):
        set_aside(spool, source, Lost.FOREIGN.value)
        return _Settled.GONE
    if spool.exists(Folder.QUEUES, parsed[0]):
        is_same = _is_the_same(spool, source, *parsed)
        if not is_same:
            return _Settled.PLACE_IS_FREE if is_same is None else _Settled.KEPT_OUT
    spool.move_aside(Folder.SPARK, source, Folder.REMOVE, name)
    return _Settled.GONE


def set_aside(spool: Spool, source: str, why: str) -> None:
    """Move a member from `spark` to `corrupt`, and log it."""
    name = source.rpartition("/")[2]
    kept = spool.move_aside(Folder.SPARK, source, Folder.CORRUPT, name)
    if kept is not None:
        spool.report_left(f"{Folder.CORRUPT}/{kept}", why)


def _is_the_same(spool: Spool, source: str, queue: QueueName, message_id: MessageId) -> bool | None:
    """Return whether the queue's message of that id has the same body and properties, or None if it
    is gone. Raises OSError if it cannot be read."""
    ours = _sum_of(spool, Folder.SPARK, source)
    for folder, name in (
        (Folder.QUEUES, queue_path(queue, message_id)),
        (Folder.DELAY, file_name(queue, message_id)),
    ):
        theirs = _sum_of(spool, folder, name)
        if theirs is not None:
            return theirs == ours
    return None


def _sum_of(spool: Spool, folder: Folder, name: str) -> Sum | None:
    """Return lengths and checksums of a message, or None if it is gone. A file that is not a
    message equals no other."""
    opened = look_at(spool, folder, name)
    if opened is None:
        return Sum(-1, 0) if spool.exists(folder, name) else None
    with opened:
        return opened.sum()
