"""Receive from a FIFO queue: of each group what comes next, unless it has a message in flight."""

from __future__ import annotations

from collections.abc import Sequence

from mq.commit.operation import Operation
from mq.disk.file_work import FileWork
from mq.ids import id_of_key
from mq.names import MessageId, QueueName
from mq.spool.message.held import Lost
from mq.store.answer_memory import AnswerRoom
from mq.store.indexing import MAX_LISTINGS, listing
from mq.store.queue.expiry import expire_some, expiring
from mq.store.queue.settings import visibility_ns
from mq.store.receiving.oldest import PASSED, Ask
from mq.store.receiving.put_back import give_back
from mq.store.receiving.receive import (
    ReceivedOrBusy,
    check_bodies,
    close_all,
    drop_expired,
    taken_from,
)
from mq.store.receiving.received_message import Received
from mq.store.receiving.taking import Taker
from mq.store.shared_state import Workspace
from mq_sqs.fifo.fifo_queue import FifoQueue, FifoQueues
from mq_sqs.fifo.using import look_again, look_at_overdue, use

_MAX_LATE = 10
"""A receive ends empty after this many times that its leases were over too soon."""

_LOOKS_AT_ONCE = 10
"""A receive that would end empty looks for this many messages that should have come back."""


def receive_in_order(
    work: Workspace, fifo: FifoQueues, queue: QueueName, ask: Ask
) -> Operation[ReceivedOrBusy]:
    """Take messages of the groups whose next message is oldest, as many of each as there are.
    Returns none if no group has one to receive, and Lost.BUSY if other processes hold those that
    are next.

    On return the leases survive a power cut. A crash before that leaves each message in its queue,
    or in `delay` until its stamp is due. Raises QueueNotFound, StoreUnavailable.
    """
    listings = late = 0
    while late < _MAX_LATE:
        state = yield from use(work, fifo, queue)
        settings = work.settings.of(queue)
        if settings.paused:
            return []
        if expire_some(work, queue, state.ready, settings):
            yield expiring(work, queue)
            continue
        state = yield from use(work, fifo, queue)
        if state.groups.available <= ask.leave:
            work.ready.drain()
            if fifo.find(work, queue) is not state or state.unread:
                continue
            look_at_overdue(work, state, _LOOKS_AT_ONCE)
        if state.groups.available <= ask.leave:
            if listings == MAX_LISTINGS or not _may_have_missed(work, state):
                return []
            listings += 1
            yield listing(work, queue)
            continue
        taken, was_busy = yield from _take_some(work, state, ask)
        if not taken:
            return Lost.BUSY if was_busy else []
        good = yield from _commit(work, state, taken)
        if good:
            return good
        late += 1
    return []


def _may_have_missed(work: Workspace, state: FifoQueue) -> bool:
    return not work.sees_all_events(state.name) and work.may_have_changed(state.name, state.ready)


def _take_some(
    work: Workspace, state: FifoQueue, ask: Ask
) -> FileWork[tuple[list[Received], bool]]:
    """Take the first messages that can be taken. Returns them, and whether others hold some. Such a
    message keeps its own group waiting, and no other one."""
    queue, passed = state.name, list[str]()
    taken: list[Received] = []
    hidden_ns = visibility_ns(work, work.settings.of(queue), ask.visibility_ns)
    taker = Taker(work, queue, hidden_ns)
    try:
        while not taken and (keys := state.groups.take(ask.limit)):
            for key in keys:
                # If this ends by an error, `mq_sqs.fifo.in_flight` looks where the message is.
                state.expect(id_of_key(key), work.clock_ns())
                state.ready.discard(id_of_key(key))
            ids = [MessageId(id_of_key(key)) for key in keys]
            outcomes: Sequence[object]
            if len(ids) == 1:
                outcomes = [(yield from _take_one(state, ids[0], taker.take(ids[0])))]
            else:
                outcomes = taker.take_together(ids, AnswerRoom(share=ask.share))
            taken += _keep_in_order(work, state, list(zip(ids, outcomes, strict=True)), passed)
    finally:
        if ask.share is not None:
            ask.share.hold_bodies(sum(each.file_length for each in taken))
        for message_id in passed:
            work.ready.restore(queue, MessageId(message_id))
    return taken, bool(passed)


def _take_one(
    state: FifoQueue, message_id: MessageId, taking: FileWork[Received | Lost | None]
) -> FileWork[Received | Lost | None]:
    """Take one message, by file calls that are made with those of the round. Others go on
    meanwhile."""
    state.ready.begin_taking(message_id)
    state.taking.add(message_id)
    try:
        return (yield from taking)
    finally:
        state.ready.end_taking(message_id)
        state.taking.discard(message_id)


def _keep_in_order(
    work: Workspace,
    state: FifoQueue,
    outcomes: Sequence[tuple[MessageId, object]],
    passed: list[str],
) -> list[Received]:
    """Return those that may be received: none that comes after one of its group that was not taken.
    Raises the first OSError if none was taken."""
    taken: list[Received] = []
    waiting: set[str | None] = set()
    failure: Exception | None = None
    for message_id, outcome in outcomes:
        group = state.groups.group_of(message_id)
        if isinstance(outcome, Received) and group not in waiting:
            state.expect(message_id, outcome.visible_ns)
            taken.append(outcome)
            continue
        waiting.add(group)
        if isinstance(outcome, Received):
            give_back(work, [outcome])
        elif outcome in PASSED:
            passed.append(message_id)
        elif outcome is Lost.FOREIGN:
            state.forget(message_id)
        else:
            look_again(work, state, message_id)
        if isinstance(outcome, Exception):
            failure = failure or outcome
    if failure is not None and not taken:
        raise failure
    return taken


def _commit(work: Workspace, state: FifoQueue, taken: list[Received]) -> Operation[list[Received]]:
    """Make the leases durable. Returns those messages that are whole and not too old, none if a
    lease is over."""
    try:
        yield taken_from(state.name, len(taken))
    except BaseException:
        close_all(work, taken)
        raise
    now_ns = work.clock_ns()
    if any(each.visible_ns <= now_ns for each in taken):
        # By now the mover may have brought it back, and it comes first again.
        close_all(work, taken)
        return []
    work.counts.of(state.name).received += len(taken)
    whole = yield from check_bodies(work, taken)
    good = drop_expired(work, work.settings.of(state.name), whole)
    if len(good) == len(taken):
        return good
    return _without_those_behind(work, state, taken, good)


def _without_those_behind(
    work: Workspace,
    state: FifoQueue,
    taken: Sequence[Received],
    good: Sequence[Received],
) -> list[Received]:
    """Return those of `good` that may be received, although another message was damaged or too
    old, or its lease is over. One that is gone leaves its place to the next; one that comes again
    keeps those of its group behind it."""
    left: list[Received] = []
    waiting: set[str | None] = set()
    whole = {each.message_id: each for each in good}
    for message_id in [each.message_id for each in taken]:
        group = state.groups.group_of(message_id)
        if (received := whole.get(message_id)) is None:
            look_again(work, state, message_id)
            if message_id in state.groups:
                waiting.add(group)
        elif group in waiting:
            give_back(work, [received])
        else:
            left.append(received)
    return left
