"""Take the oldest messages that the index of a queue knows, past those that others hold or that
cannot be read."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

import structlog

from mq.disk.file_work import FileWork
from mq.ids import order_key
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.message.held import Lost
from mq.store.answer_memory import AnswerRoom, Share
from mq.store.index.ready_queue import ReadyQueue
from mq.store.receiving.put_back import give_back
from mq.store.receiving.received_message import Received
from mq.store.receiving.taking import Taken, Taker
from mq.store.shared_state import Workspace

log = structlog.get_logger(__name__)

_AT_ONCE = 64
"""This many are taken in one go: all of them are open together, with their small bodies in
memory."""

MOST_FAILURES = 8
"""This many messages that cannot be read, one after the other, are a fault of the disk."""

PASSED = (None, Lost.BUSY)
"""What becomes of a message that stays in the queue, and goes back into its index."""


class Ask(NamedTuple):
    """What a receive asks for: up to `limit` messages, each hidden for `visibility_ns` (None means
    as long as the queue or the server says). The oldest `leave` messages are for those who asked
    before. `share` says how many bytes of bodies there is memory for."""

    visibility_ns: int | None = None
    limit: int = 1
    leave: int = 0
    share: Share | None = None


def take_one(
    work: Workspace, queue: QueueName, ready: ReadyQueue, ask: Ask, hidden_ns: int
) -> FileWork[tuple[list[Received], bool]]:
    """Do what `take_some` does, for one message: its file calls are made with those of the round.
    One that the disk cannot read is passed over too, if it can read a later one."""
    passed: list[MessageId] = []
    failures: list[OSError] = []
    was_busy = False
    taker = Taker(work, queue, hidden_ns)
    try:
        while (message_id := _next(work, queue, ready, ask.leave)) is not None:
            ready.begin_taking(message_id)
            came_again = False
            try:
                outcome = yield from taker.take(message_id)
            except OSError as error:
                failures.append(error)
                if error.errno != errno.EIO or len(failures) == MOST_FAILURES:
                    ready.keep(message_id)
                    raise
                work.report(f"{Folder.QUEUES}/{queue}/{message_id}", str(error.strerror))
                passed.append(message_id)
                ready.discard(message_id)  # It is back, and would come next again.
                continue
            finally:
                came_again = ready.end_taking(message_id)
            if isinstance(outcome, Received):
                if not ready.is_behind_kept(message_id, outcome.published_ns):
                    return [outcome], was_busy
                give_back(work, [outcome])
                continue
            was_busy = was_busy or outcome is Lost.BUSY
            if outcome in PASSED or came_again:
                passed.append(message_id)
            elif outcome is Lost.GONE:
                # Another process takes messages too, and events of what it took wait to be read.
                work.ready.drain()
        if failures:
            raise failures[0]
        return [], was_busy
    finally:
        if passed:
            restore(work, queue, passed)
        if failures:
            # One who waits may have found nothing meanwhile.
            work.ready.came(queue, len(failures))


def take_some(
    work: Workspace, queue: QueueName, ready: ReadyQueue, ask: Ask, hidden_ns: int
) -> tuple[list[Received], bool]:
    """Go through the index until enough messages are taken, or it has run dry. Returns them, and
    whether others held some. The file calls are made in one go.

    An error in one message costs that message alone: it is reported once and passed over.
    """
    taken: list[Received] = []
    passed: list[MessageId] = []
    # What another server had reserved may be free again when the next ones are taken.
    was_busy, is_in_order, used = False, not work.config.peers, 0
    taker = Taker(work, queue, hidden_ns)
    try:
        while len(taken) < ask.limit:
            # What comes back while the receive is in work may be older than what it has taken.
            is_in_order = is_in_order and not (taken and len(ready) <= ask.leave)
            ids = next_some(work, queue, ready, ask.leave, min(ask.limit - len(taken), _AT_ONCE))
            if not ids:
                break
            room = AnswerRoom(used if taken else None, ask.share)
            outcomes = taker.take_together(ids, room)
            work.reservations.release()
            some = taken_in_order(work, outcomes)
            used = room.used
            taken += some
            if len(some) < len(outcomes):
                was_busy = was_busy or Lost.BUSY in outcomes
                passed += [each for each, how in zip(ids, outcomes, strict=True) if how in PASSED]
                _raise_first(outcomes)
                if Lost.GONE in outcomes:
                    work.ready.drain()
                    is_in_order = False
            if room.is_full:
                break
    except OSError as error:
        if not taken:
            raise
        log.error("receive ended early", queue=queue, error=str(error))
    finally:
        if ask.share is not None:
            ask.share.hold_bodies(used)
        restore(work, queue, passed)
    if not is_in_order:
        taken.sort(key=lambda each: order_key(each.message_id, each.published_ns))
    return taken, was_busy


def restore(work: Workspace, queue: QueueName, passed: Sequence[MessageId]) -> None:
    """Put messages back that are still there, as far as the index can know."""
    for message_id in passed:
        work.ready.restore(queue, message_id)


def taken_in_order(work: Workspace, outcomes: Sequence[Taken | Exception]) -> list[Received]:
    """Return the messages that were taken. Those behind one that the disk has no room to move are
    put back: they would overtake it."""
    taken = [each for each in outcomes if isinstance(each, Received)]
    if len(taken) == len(outcomes):
        return taken
    before = sum([isinstance(each, Received) for each in takewhile(_may_pass, outcomes)])
    give_back(work, taken[before:])
    return taken[:before]


def _may_pass(outcome: object) -> bool:
    """Return whether the messages behind may be taken: those behind one that cannot be read may."""
    return not isinstance(outcome, OSError) or outcome.errno == errno.EIO


def _raise_first(outcomes: Sequence[object]) -> None:
    for each in outcomes:
        if isinstance(each, Exception):
            raise each


def _next(work: Workspace, queue: QueueName, ready: ReadyQueue, leave: int) -> MessageId | None:
    ids = next_some(work, queue, ready, leave, 1)
    return ids[0] if ids else None


def next_some(
    work: Workspace, queue: QueueName, ready: ReadyQueue, leave: int, limit: int
) -> list[MessageId]:
    """Return the next messages to try, up to `limit`, or none when the index, with all events taken
    in, has run dry. Beside other servers the index first learns what they took: an event costs a
    tenth of a lost race. Then those are the next that no other server has reserved."""
    has_peers = bool(work.config.peers)
    if has_peers:
        work.ready.drain_once()
    if len(ready) <= leave:
        work.ready.drain()
    if has_peers:
        return _take_free(work, queue, ready, leave, limit)
    return ready.pop_some(min(limit, len(ready) - leave))


def _take_free(
    work: Workspace, queue: QueueName, ready: ReadyQueue, leave: int, limit: int
) -> list[MessageId]:
    """Take up to `limit` messages out of the index, and reserve them: the oldest that no other
    server has reserved. As many as `leave` of these stay. If others have reserved all there are,
    take the oldest anyway: a server that has reserved some may be stopped."""
    free: list[MessageId] = []
    last = "" if len(ready) > leave else None
    while last is not None and (missing := min(limit + leave, len(ready)) - len(free)) > 0:
        reserved = work.reservations.reserve(queue, ready.iterate_behind(last), missing)
        last = ready.key(reserved[-1]) if reserved else None
        # Others have moved what they took before they let go of it, so the events are there.
        work.ready.drain()
        free = [each for each in (*free, *reserved) if each in ready]
    here = free or ready.behind("", limit + leave)
    taken = here[: max(0, min(limit, len(here) - leave))]
    ready.discard_all(taken)
    return taken
