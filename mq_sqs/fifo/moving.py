"""Move messages from one FIFO queue to another in their order, as a move task does.

A group moves from its beginning on. One with a message in flight stays where it is, and so do those
behind a message that cannot be moved.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from mq.commit.operation import Operation, Pause
from mq.ids import id_of_key
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, is_fifo, queue_path
from mq.spool.message.burial import burial_of
from mq.spool.message.held import look_at
from mq.store.indexing import MAX_LISTINGS, being_made_again
from mq.store.moving.move import Moving, count_moved, prepare_move, try_move, unsynced_move
from mq.store.moving.redrive import Redriven
from mq.store.shared_state import Workspace
from mq_sqs.fifo.fifo_queue import FifoQueue, FifoQueues
from mq_sqs.fifo.using import use


class OrderedMove(NamedTuple):
    """What is to be moved: up to `limit` messages and none of `passed`; to the target, or without
    one back to the queue that each died in."""

    source: QueueName
    target: QueueName | None
    limit: int
    passed: Set[MessageId]


def move_in_order(work: Workspace, fifo: FifoQueues, move: OrderedMove) -> Operation[Redriven]:
    """Move messages that could be received. Of those that go back, the ones that died in one queue
    are moved at a time.

    Durable on return; a crash leaves each message in one of its two queues. Raises QueueNotFound,
    also for a queue that messages died in, StoreUnavailable, and TooOld as `redrive` does; what was
    moved before stays moved.
    """
    redriven = Redriven([], [], [], [])
    state = yield from use(work, fifo, move.source)
    first = _next_id(state, move.passed)
    if first is None:
        return redriven
    home = move.target or _home_of(work, move.source, first)
    if home is None or not is_fifo(home):
        redriven.lost.append(first)
        return redriven
    moving = Moving(move.source, home)
    state = yield from _prepare(work, fifo, moving)
    # No other operation has a turn until these are moved, or offered again.
    _move_some(work, state, move, home, redriven)
    yield unsynced_move(moving, Folder.QUEUES) if redriven.moved else Pause(0.0)
    count_moved(work, moving, len(redriven.moved))
    return redriven


def _prepare(work: Workspace, fifo: FifoQueues, moving: Moving) -> Operation[FifoQueue]:
    """Hold both queues, with every message of the source known."""
    for _ in range(MAX_LISTINGS):
        yield from prepare_move(work, moving)
        state = fifo.find(work, moving.source)
        if state is not None and not state.unread:
            return state
        yield from use(work, fifo, moving.source)
    raise being_made_again(moving.source)


def _next_id(state: FifoQueue, passed: Set[MessageId]) -> MessageId | None:
    """Return what would be moved next, and leave it where it is; None if nothing is left."""
    stuck = _take_stuck(state, passed)
    keys = state.groups.take(1)
    for key in (*stuck, *keys):
        state.groups.show(key)
    return MessageId(id_of_key(keys[0])) if keys else None


def _take_stuck(state: FifoQueue, passed: Set[MessageId]) -> list[str]:
    """Take what would come next and cannot be moved, and return the keys: then the next group
    comes first."""
    stuck: list[str] = []
    while keys := state.groups.take(1):
        if MessageId(id_of_key(keys[0])) not in passed:
            state.groups.show(keys[0])
            break
        stuck += keys
    return stuck


def _home_of(work: Workspace, source: QueueName, message_id: MessageId) -> QueueName | None:
    """Return the queue that a message died in; None if it does not say. Raises OSError."""
    opened = look_at(work.spool, Folder.QUEUES, queue_path(source, message_id))
    if opened is None:
        return None
    with opened:
        burial = burial_of(work.files, opened.fd, source)
    return None if burial is None else burial.queue


def _move_some(
    work: Workspace, state: FifoQueue, move: OrderedMove, home: QueueName, redriven: Redriven
) -> None:
    """Move what goes to `home`, each group up to the first message that does not. Raises TooOld,
    OSError."""
    moving = Moving(move.source, home)
    keys = _take_stuck(state, move.passed)
    keys += state.groups.take(move.limit)
    waiting: set[str | None] = set()
    failures: list[OSError] = []
    try:
        for key in keys:
            message_id = MessageId(id_of_key(key))
            group = state.groups.group_of(message_id)
            if group in waiting or len(redriven.moved) == move.limit:
                continue
            if not _goes_to(work, move, home, message_id):
                waiting.add(group)
                continue
            outcome = try_move(work, moving, message_id, failures)
            if not redriven.note(message_id, outcome):
                break
            if outcome is None:
                state.ready.discard(message_id)
                state.forget(message_id)
            else:
                waiting.add(group)
    finally:
        for key in keys:
            if state.groups.is_hidden(id_of_key(key)):
                state.groups.show(key)


def _goes_to(work: Workspace, move: OrderedMove, home: QueueName, message_id: MessageId) -> bool:
    if message_id in move.passed:
        return False
    return move.target is not None or _home_of(work, move.source, message_id) == home
