"""Redrive: ready dead letters go back, each to the queue that it died in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from typing import NamedTuple

from mq.commit.operation import Operation, Pause
from mq.errors import IdTaken, MQError, StoreUnavailable, TooOld
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.message.held import Lost
from mq.store.moving.move import (
    MOVES_AT_ONCE,
    Moving,
    check_move,
    count_moved,
    prepare_move,
    try_move,
    unsynced_move,
)
from mq.store.peeking.peek import peek
from mq.store.shared_state import Workspace


class Redriven(NamedTuple):
    """The ids of dead letters by what became of them. Those in `moved` are back where they died.
    Those in `stayed` are held by others, or are in `taken` too, because their queues have other
    messages with these ids. Those in `lost` do not say where they died. One whose queue has no room
    is in none of the lists."""

    moved: list[MessageId]
    stayed: list[MessageId]
    taken: list[MessageId]
    lost: list[MessageId]

    def note(self, message_id: MessageId, outcome: MQError | Lost | None) -> bool:
        """Enter what `try_move` returned for a message, and return whether to try the next one.
        Raises TooOld if it is the first one."""
        if outcome is None:
            self.moved.append(message_id)
            return True
        if isinstance(outcome, StoreUnavailable):
            return False  # The queue is full, and may have room later; it had when this began.
        if isinstance(outcome, TooOld):
            if not self.moved:
                raise outcome
            return False
        self.stayed.append(message_id)
        if isinstance(outcome, IdTaken):
            self.taken.append(message_id)
        return True


def redrive(
    work: Workspace, source: QueueName, limit: int, passed: Set[MessageId]
) -> Operation[Redriven]:
    """Move the oldest ready messages of a queue, up to `limit` and none of `passed`, each back to
    the queue it died in.

    Durable on return; a crash leaves each message in one of its two queues. Raises QueueNotFound,
    also for a queue that messages died in, StoreUnavailable, and TooOld for a queue that would
    remove the first message at once; what was moved before stays moved.
    """
    found = yield from peek(work, source, limit + len(passed))
    homes: dict[QueueName, list[MessageId]] = defaultdict(list)
    redriven = Redriven([], [], [], [])
    for each in found:
        each.close(work.files)
        if each.message_id in passed:
            continue
        if each.burial is None:
            redriven.lost.append(each.message_id)
        else:
            homes[each.burial.queue].append(each.message_id)
    for home, ids in homes.items():
        for start in range(0, len(ids), MOVES_AT_ONCE):
            some = ids[start : start + MOVES_AT_ONCE]
            yield from _move_home(work, Moving(source, home, died_in=home), some, redriven)
    return redriven


def _move_home(
    work: Workspace, moving: Moving, ids: Sequence[MessageId], redriven: Redriven
) -> Operation[None]:
    """Move those that are still ready, under one barrier."""
    check_move(work, moving)
    yield from prepare_move(work, moving)
    before = len(redriven.moved)
    failures: list[OSError] = []
    for message_id in ids:
        if not redriven.note(message_id, try_move(work, moving, message_id, failures)):
            break
    moved = redriven.moved[before:]
    for message_id in moved:
        work.ready.discard(moving.source, message_id)
    yield unsynced_move(moving, Folder.QUEUES) if moved else Pause(0.0)
    count_moved(work, moving, len(moved))
