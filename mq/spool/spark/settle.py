"""Bring messages of `spark` to their queues, and decide what becomes of those that find no place
there.

    the queue takes it            it is ready, or in `delay` under its stamp
    there is no such queue        it is removed: its queue was deleted, and all its messages with it
    the queue was made since      the same: the queue of that name is another one, and must not take
                                  the id for known
    the queue has that id         it is removed if the bodies are equal, else it goes to `corrupt`
    it is not a file              it goes to `corrupt`
    the disk keeps it             it stays, and the next try goes on with it
"""

from __future__ import annotations

import errno
import stat
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from mq.disk.libc import birth_ns
from mq.disk.status import Status
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, parse_file_name, queue_path
from mq.spool.message.held import Lost, Sum, look_at, seal_at
from mq.spool.open_queues import OpenQueue
from mq.spool.queue.queue_birth import queue_made_ns
from mq.spool.rolling import PlaceOf, Rolled, roll_forward
from mq.spool.sets import members, remove_empty_set
from mq.spool.spool import Spool

_LOOKS = 3
"""How often a member is tried: the message that had the same id can be gone at the next look, and
the place be free."""


class _Settled(Enum):
    GONE = "it is out of the way"
    KEPT_OUT = "another message has its id"
    PLACE_IS_FREE = "what kept it out is gone"


class _MadeAgain(OSError):
    """Since the look at a queue there is another one of its name, so the members are not its
    own."""


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
    placed = 0
    try:
        present, queues, kept = _remove_old(spool, path, witness)
        place_in_the_same = _into_the_same(spool, place_of, queues, kept)
        for _ in range(_LOOKS):
            rolled = roll_forward(spool, Folder.SPARK, path, place_in_the_same)
            placed += present - len(rolled.left)
            outcomes, errors = _settle_left(spool, path, rolled)
            if _Settled.PLACE_IS_FREE not in outcomes.values():
                break
            present = len(members(spool, Folder.SPARK, path))
    except FileNotFoundError:
        # Another process was faster.
        return Brought(placed, [])
    remove_empty_set(spool, Folder.SPARK, path)
    if errors:
        raise errors[0]
    if _Settled.PLACE_IS_FREE in outcomes.values():
        raise BlockingIOError(errno.EAGAIN, "a place is taken and free in turns", path)
    return Brought(placed, [each for each in outcomes if outcomes[each] is _Settled.KEPT_OUT])


def _settle_left(
    spool: Spool, path: str, rolled: Rolled
) -> tuple[dict[str, _Settled], list[OSError]]:
    """Decide about the members that found no place. Returns what became of each, and the errors
    that keep others where they are."""
    outcomes: dict[str, _Settled] = {}
    errors: list[OSError] = []
    for member in rolled.left:
        error = rolled.errors.get(member)
        try:
            if isinstance(error, _MadeAgain):
                outcomes[member] = _remove(spool, f"{path}/{member}")
            elif error is not None:
                errors.append(error)
            else:
                outcomes[member] = _settle(spool, f"{path}/{member}")
        except OSError as why:
            errors.append(why)
    return outcomes, errors


class _SeenQueue(NamedTuple):
    """What a look says of a queue: when it was made, in ns since 1970, or None if there is none or
    the file system does not know; whether that time can prove anything; and why the disk did not
    say it."""

    made_ns: int | None = None
    is_proof: bool = False
    error: OSError | None = None


def _into_the_same(
    spool: Spool,
    place_of: PlaceOf,
    queues: dict[QueueName, _SeenQueue],
    kept: Mapping[str, OSError],
) -> PlaceOf:
    """Return `place_of`, except that members stay where they are if the disk refused them, as
    `kept` says by their names, or their queue; or if that was made again since the look: between
    two times that the queue is shared it can be deleted and made."""
    last: OpenQueue | None = None

    def place_in_the_same(
        status: Status, queue: QueueName, message_id: MessageId
    ) -> tuple[Folder, str]:
        nonlocal last
        if (error := kept.get(file_name(queue, message_id))) is not None:
            raise OSError(error.errno, error.strerror, queue)
        if (seen := queues.get(queue)) is None:
            # The member came after the look: a driver that was fenced off was in the middle of it.
            seen = queues[queue] = _look_at_queue(spool, queue)
        if seen.error is not None:
            raise OSError(seen.error.errno, seen.error.strerror, queue)
        try:
            opened = spool.queues.opened(queue)
        except (FileNotFoundError, NotADirectoryError):
            return place_of(status, queue, message_id)  # The move finds that out.
        if opened is not last and queue_made_ns(spool, queue) != seen.made_ns:
            raise _MadeAgain
        last = opened
        return place_of(status, queue, message_id)

    return place_in_the_same


def _remove_old(
    spool: Spool, path: str, witness: Callable[[str], str]
) -> tuple[int, dict[QueueName, _SeenQueue], dict[str, OSError]]:
    """Remove the members whose queue was made after them. Returns how many others there are, what
    was seen of their queues, and by their names those that the disk did not let it decide about."""
    queues: dict[QueueName, _SeenQueue] = {}
    kept: dict[str, OSError] = {}
    is_old: dict[tuple[QueueName, str], bool] = {}
    present = members(spool, Folder.SPARK, path)
    removed = 0
    for member in present:
        name, seen = member.rpartition("/")[2], witness(member)
        queue = QueueName(name.partition(":")[0])
        if queue not in queues:
            queues[queue] = _look_at_queue(spool, queue)
        try:
            if (queue, seen) not in is_old:
                is_old[queue, seen] = _is_before(spool, seen, queues[queue])
            if is_old[queue, seen] and not _is_younger(spool, f"{path}/{member}", queues[queue]):
                _remove(spool, f"{path}/{member}")
                removed += 1
        except OSError as error:
            kept[name] = error
    return len(present) - removed, queues, kept


def _look_at_queue(spool: Spool, queue: QueueName) -> _SeenQueue:
    """Look when a queue was made. Its times prove nothing if the clock went back since: if the
    queue was changed before it was made, or is made later than now."""
    try:
        made_ns, status = queue_made_ns(spool, queue), spool.status(Folder.QUEUES, queue)
    except OSError as error:
        return _SeenQueue(error=error)
    if made_ns is None or status is None:
        return _SeenQueue(made_ns)
    return _SeenQueue(made_ns, made_ns <= min(status.st_mtime_ns, time.time_ns()))


def _is_before(spool: Spool, name: str, queue: _SeenQueue) -> bool:
    """Return whether a file got its name before its queue was made: a rename and a link set its
    ctime. A file that was written before it was made is a copy, for example of a whole root, and
    its times say nothing."""
    status = spool.status(Folder.SPARK, name) if queue.is_proof else None
    if status is None or queue.made_ns is None or status.st_ctime_ns >= queue.made_ns:
        return False
    own_ns = birth_ns(spool.path(Folder.SPARK, name))
    return own_ns is not None and status.st_mtime_ns >= own_ns


def _is_younger(spool: Spool, member: str, queue: _SeenQueue) -> bool:
    """Return whether a message was published after its queue was made, as its seal says. Then the
    clock that gives files their times was behind that of the queue when it was taken."""
    try:
        seal = seal_at(spool, Folder.SPARK, member)
    except FileNotFoundError:
        return False
    return seal is not None and queue.made_ns is not None and seal.published_ns >= queue.made_ns


def _remove(spool: Spool, source: str) -> _Settled:
    """Remove a message whose queue was deleted. Under `QUEUE:ID` a queue that is made again would
    find it, and take its id for one of its own."""
    name = source.rpartition("/")[2]
    spool.move_aside(Folder.SPARK, source, Folder.REMOVE, f"{name}~2")
    return _Settled.GONE


def _settle(spool: Spool, source: str) -> _Settled:
    parsed = parse_file_name(source.rpartition("/")[2])
    status = spool.status(Folder.SPARK, source)
    if parsed is None or status is None:
        return _Settled.GONE
    name = file_name(*parsed)
    if not stat.S_ISREG(status.st_mode):
        set_aside(spool, source, Lost.FOREIGN.value)
        return _Settled.GONE
    if not spool.exists(Folder.QUEUES, parsed[0]):
        return _remove(spool, source)
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
