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
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from mq.config import PURGE_LOCK_SECONDS
from mq.disk.calls import CHAINS_AT_ONCE, STATUS_OF, Call, check, run
from mq.disk.files import HIDDEN
from mq.disk.status import Status
from mq.lifecycle import Folder
from mq.names import (
    MessageId,
    QueueName,
    file_name,
    is_queue_name,
    parse_file_name,
    queue_path,
)
from mq.spool.folders import Spool
from mq.spool.message.held import Lost
from mq.spool.message.seal import is_stamped_ahead
from mq.spool.message.second_names import finish_move
from mq.spool.open_queues import OpenQueue

OPEN_SUFFIX = ".open"

PlaceOf = Callable[[Status, QueueName, MessageId], tuple[Folder, str]]
"""Says where a member goes: the folder, and its name there."""


@dataclass
class Rolled:
    """What rolling forward did: the messages that are ready in their queues now, and the members
    that had to stay, each with the reason. Members that an error of the disk kept are in `errors`
    too: their place may be free."""

    ready: list[tuple[QueueName, MessageId]] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    errors: dict[str, OSError] = field(default_factory=dict)


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


def to_queue(status: Status, queue: QueueName, message_id: MessageId) -> tuple[Folder, str]:
    """Send every member to its queue, where a claim took it from. The mtime of such a member means
    nothing."""
    return Folder.QUEUES, queue_path(queue, message_id)


def by_stamp(now_ns: int) -> PlaceOf:
    """Send a member to `delay` if it was stamped on purpose with a due time ahead, and the others
    to their queues."""

    def place_of(status: Status, queue: QueueName, message_id: MessageId) -> tuple[Folder, str]:
        if is_stamped_ahead(status, now_ns):
            return Folder.DELAY, file_name(queue, message_id)
        return Folder.QUEUES, queue_path(queue, message_id)

    return place_of


def roll_forward(spool: Spool, folder: Folder, name: str, place_of: PlaceOf) -> Rolled:
    """Move the members of a set to their places, in the order of their names, and remove its empty
    folder.

    The caller holds the set's lock. Nothing is replaced: a member whose name is taken stays, and so
    does one whose queue does not exist, is shut, or another process's alone for PURGE_LOCK_SECONDS.
    Raises OSError if all queues are. A second call goes on where the first one stopped.
    """
    rolling = _Rolling(spool, folder, name, place_of)
    found = members(spool, folder, name)
    for at in range(0, len(found), CHAINS_AT_ONCE):
        rolling.roll(found[at : at + CHAINS_AT_ONCE])
    if rolling.shut and len(rolling.shut) == len({*map(_queue_of, found)}):
        raise next(iter(rolling.shut.values()))
    if not rolling.rolled.left:
        remove_empty_set(spool, folder, name)
    return rolling.rolled


class _Step(NamedTuple):
    """A member, its parsed name, and the move to its place. `keepers` keep that place open."""

    member: str
    parsed: tuple[QueueName, MessageId]
    target: Folder
    move: Call
    keepers: tuple[OpenQueue | None, ...]


class _Rolling:
    """A set that is being rolled forward, some members at a time."""

    def __init__(self, spool: Spool, folder: Folder, name: str, place_of: PlaceOf) -> None:
        self.rolled = Rolled()
        self.shut: dict[str, OSError] = {}
        self._spool, self._folder, self._name, self._place_of = spool, folder, name, place_of

    def roll(self, some: Sequence[str]) -> None:
        """Move these members, and enter what became of them in `rolled`. Those of a queue that
        cannot be shared stay, and that queue is not tried again: `shut` says why."""
        queues = self._spool.queues
        with ExitStack() as stack:
            for queue in dict.fromkeys(map(_queue_of, some)):
                if queue in self.shut:
                    continue
                try:
                    stack.enter_context(queues.shared(queue, PURGE_LOCK_SECONDS))
                except (FileNotFoundError, NotADirectoryError):
                    pass  # Each move finds that out.
                except OSError as error:
                    self.shut[queue] = error
            self._roll(some)

    def _roll(self, some: Sequence[str]) -> None:
        files, fd = self._spool.files, self._spool.fd(self._folder)
        found = run(files, [((STATUS_OF, fd, f"{self._name}/{each}"),) for each in some])
        steps = []
        for member, status in zip(some, found, strict=True):
            if status[1] in (errno.ENOENT, errno.ENOTDIR):
                continue
            step: _Step | str | OSError | None = self.shut.get(_queue_of(member))
            try:
                step = step or self._step(member, Status(*check(status)[0]))
            except OSError as error:
                step = error
            if isinstance(step, OSError):
                self._leave(member, step)
            elif isinstance(step, str):
                self.rolled.left[member] = step
            elif step is not None:
                steps.append(step)
        outcomes = run(files, [(step.move,) for step in steps])
        for (member, parsed, target, _, _), (_, code) in zip(steps, outcomes, strict=True):
            if code == errno.EEXIST:
                self.rolled.left[member] = f"{target} has another message of that id"
            elif code == errno.ENOENT:
                self.rolled.left[member] = f"there is no queue {parsed[0]}"
            elif code:
                self._leave(member, OSError(code, os.strerror(code)))
            elif target is Folder.QUEUES:
                self.rolled.ready.append(parsed)

    def _step(self, member: str, status: Status) -> _Step | str | None:
        """Return a member's move, why it has to stay, or None if it has moved. Raises OSError."""
        spool, path = self._spool, f"{self._name}/{member}"
        parsed = parse_file_name(member.rpartition("/")[2])
        assert parsed is not None, "a member has the name of a message"
        if not stat.S_ISREG(status.st_mode):
            return Lost.FOREIGN.value
        if finish_move(spool, self._folder, path, status):
            return None
        target, target_name = self._place_of(status, *parsed)
        # `delay` takes every name, and a message without a queue would stay there for ever.
        if target is not Folder.QUEUES and not spool.exists(Folder.QUEUES, parsed[0]):
            return f"there is no queue {parsed[0]}"
        try:
            move, keepers = spool.move_call(self._folder, path, target, target_name)
        except FileNotFoundError:
            return f"there is no queue {parsed[0]}"
        return _Step(member, parsed, target, move, keepers)

    def _leave(self, member: str, error: OSError) -> None:
        self.rolled.left[member] = error.strerror or str(error)
        self.rolled.errors[member] = error


def remove_empty_set(spool: Spool, folder: Folder, name: str) -> None:
    """Remove the folder of a set whose members are gone. Does nothing if something is in it."""
    try:
        for entry in spool.names_below(folder, name):
            spool.files.remove_folder(spool.fd(folder), f"{name}/{entry}")
        spool.files.remove_folder(spool.fd(folder), name)
    except OSError:
        # A person put a file into it, or it is gone already.
        pass


def give_up_set(spool: Spool, folder: Folder, name: str, removed: str) -> bool:
    """Hand a set with everything in it to the reaper, by one rename to `remove/REMOVED:.UUID`.

    `removed` is a queue's name or begins like one. Returns False if the set is gone.
    """
    return spool.move(folder, name, Folder.REMOVE, f"{removed}:.{uuid.uuid4()}")


class BatchName(NamedTuple):
    """The set of one batch: `new/.QUEUE:UUID.open`, sealed as `new/.QUEUE:UUID`."""

    queue: QueueName
    sealed: str

    @property
    def open(self) -> str:
        return self.sealed + OPEN_SUFFIX


def new_batch_name(queue: QueueName) -> BatchName:
    return BatchName(queue, f"{HIDDEN}{queue}:{uuid.uuid4()}")


def parse_batch_name(name: str) -> BatchName | None:
    """Return the batch, open or sealed, that a hidden name in `new` belongs to, or None for another
    name."""
    queue, colon, _ = name.removeprefix(HIDDEN).partition(":")
    if not name.startswith(HIDDEN) or not colon or not is_queue_name(queue):
        return None
    return BatchName(QueueName(queue), name.removesuffix(OPEN_SUFFIX))


def _queue_of(member: str) -> str:
    return member.rpartition("/")[2].partition(":")[0]


def _is_folder(spool: Spool, folder: Folder, name: str) -> bool:
    status = spool.status(folder, name)
    return status is not None and stat.S_ISDIR(status.st_mode)
