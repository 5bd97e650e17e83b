"""Roll a sealed set forward: move its members to their places, from wherever that stopped."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from mq.config import PURGE_LOCK_SECONDS
from mq.disk.calls import CHAINS_AT_ONCE, STATUS_OF, Call, check, run
from mq.disk.status import Status
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, parse_file_name, queue_path
from mq.spool.handovers import remove_taken, taken_in
from mq.spool.message.held import Lost
from mq.spool.message.seal import is_stamped_ahead
from mq.spool.message.second_names import finish_move
from mq.spool.open_queues import OpenQueue
from mq.spool.sets import members, remove_empty_set
from mq.spool.spool import Spool

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
    folder. What a handover has taken is removed first.

    The caller holds the set's lock. Nothing is replaced: a member whose name is taken stays, and so
    does one whose queue does not exist, is shut, or another process's alone for PURGE_LOCK_SECONDS.
    Raises OSError if all queues are. A second call goes on where the first one stopped.
    """
    for flat in taken_in(spool, name) if folder is Folder.NEW else ():
        remove_taken(spool, name, flat)
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


def _queue_of(member: str) -> str:
    return member.rpartition("/")[2].partition(":")[0]
