"""Move many messages: the oldest ones of a queue, or those with given ids, each as
`mq.store.moving.move` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import structlog

from mq.commit.operation import Operation, Pause, Together
from mq.config import MAX_MOVES
from mq.errors import IdTaken, MessageNotFound, MQError, StoreUnavailable, TooOld
from mq.lifecycle import Folder
from mq.names import MessageId
from mq.spool.message.held import Lost
from mq.store.by_id import Guard, hold_by_id
from mq.store.indexing import find_space, relist
from mq.store.moving.move import (
    MOVES_AT_ONCE,
    MovedMessages,
    Moving,
    check_move,
    count_moved,
    hold_both,
    move_message,
    prepare_move,
    try_move,
    unsynced_move,
)
from mq.store.patience import with_message
from mq.store.shared_state import Workspace, no_message

log = structlog.get_logger(__name__)


def move_ready(work: Workspace, moving: Moving, limit: int) -> Operation[MovedMessages]:
    """Move ready messages, oldest first, up to `limit` and MAX_MOVES, and no more after MAX_MOVES
    that stay.

    On return all of it survives a power cut; after a crash each message is in one of the two
    queues. If the target gets full meanwhile, a queue is deleted, or the disk fails, the messages
    moved before that count, and so they do if the target would remove the next one at once. Raises
    InvalidRequest, QueueNotFound, TooOld, StoreUnavailable.
    """
    check_move(work, moving)
    yield from relist(work, moving.source)
    moved, most, passed = 0, min(limit, MAX_MOVES), _Passed([], [], [])
    try:
        is_dry = False
        while not is_dry and moved < most and len(passed.all) < MAX_MOVES:
            try:
                yield from prepare_move(work, moving)
                some, is_dry = _move_some(work, moving, min(MOVES_AT_ONCE, most - moved), passed)
            except (MQError, OSError):
                if not moved:
                    raise
                break
            yield unsynced_move(moving, Folder.QUEUES) if some else Pause(0.0)
            moved += some
            count_moved(work, moving, some)
        if passed.failures and not moved:
            raise passed.failures[0]
    finally:
        for message_id in passed.all:
            work.ready.restore(moving.source, message_id)
        # Receivers who came meanwhile did not find them, and wait.
        work.ready.came(moving.source, len(passed.all))
    return MovedMessages(moved, passed.taken, sorted(set(passed.all) - set(passed.taken)))


def move_by_id(
    work: Workspace, moving: Moving, ids: Sequence[MessageId], guard: Guard | None
) -> Operation[list[MQError | None]]:
    """Move these messages, ready, leased or delayed; with a guard only those that it admits.

    Returns what is wrong with each, None for those that are moved: MessageNotFound, LeaseMismatch,
    IdTaken, TooOld, StoreUnavailable. Durable on return; so is an earlier move of what is not
    found. Raises InvalidRequest, QueueNotFound, StoreUnavailable.
    """
    check_move(work, moving)
    outcomes: list[MQError | None] = []
    for start in range(0, len(ids), MOVES_AT_ONCE):
        some = ids[start : start + MOVES_AT_ONCE]
        ended: list[Any] = yield Together([_move_one(work, moving, each, guard) for each in some])
        for outcome in ended:
            if isinstance(outcome, BaseException) and not isinstance(outcome, MQError):
                raise outcome
        outcomes += ended
    return outcomes


class _Passed(NamedTuple):
    """Messages that stay: all, those whose ids the target has, and the errors of the disk."""

    all: list[MessageId]
    taken: list[MessageId]
    failures: list[OSError]


def _move_some(work: Workspace, moving: Moving, most: int, passed: _Passed) -> tuple[int, bool]:
    """Try up to this many of the oldest messages. Returns how many were moved, and whether there
    are no more. Raises OSError or TooOld if that ends it before the first one."""
    ready = work.ready.get(moving.source)
    if ready is None:
        return 0, False
    moved = 0
    try:
        for _ in range(most):
            if (message_id := ready.pop()) is None:
                work.ready.drain()
                message_id = ready.pop()
            if message_id is None:
                # If it was listed again meanwhile, it is another index.
                return moved, work.ready.get(moving.source) is ready
            if message_id in passed.all:
                continue  # An event has brought it back.
            outcome = try_move(work, moving, message_id, passed.failures)
            if isinstance(outcome, TooOld):
                work.ready.restore(moving.source, message_id)
                if not moved:
                    raise outcome
                return moved, True
            moved += outcome is None
            if outcome is Lost.BUSY or isinstance(outcome, MQError):
                passed.all.append(message_id)
            if isinstance(outcome, IdTaken):
                passed.taken.append(message_id)
            if isinstance(outcome, StoreUnavailable):
                break  # The target is full.
    except OSError as error:
        if not moved:
            raise
        log.error("move ended early", queue=moving.source, error=str(error))
        return moved, True
    return moved, False


def _move_one(
    work: Workspace, moving: Moving, message_id: MessageId, guard: Guard | None
) -> Operation[None]:
    """Move one message by its id. Waits BUSY_WAIT_SECONDS for others that hold it or its id."""
    patience = with_message(message_id)
    while True:
        yield from hold_both(work, moving)
        if not work.knows_space(moving.target):
            yield from find_space(work, moving.target)
            yield from hold_both(work, moving)
        try:
            found = hold_by_id(work, moving.source, message_id, guard)
        except MessageNotFound:
            # The sync of who moved it may not be over.
            yield unsynced_move(moving, Folder.QUEUES, Folder.DELAY)
            raise
        if found is not None:
            place, held = found
            with held:
                outcome = move_message(work, moving, place, held)
            if outcome is None:
                break
            if outcome is Lost.GONE and moving.died_in is not None:
                raise no_message(moving.source, message_id)
        yield patience.pause()
    work.ready.discard(moving.source, message_id)
    yield unsynced_move(moving, place.folder)
    count_moved(work, moving, 1)
