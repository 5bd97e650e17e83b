"""Receive: take the oldest messages under a lease."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import structlog

from mq.commit.barrier import Unsynced
from mq.commit.operation import InWorker, Operation
from mq.disk.file_work import FileWork
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, order_key
from mq.spool.message.held import Lost
from mq.store.answer_memory import AnswerRoom, Share
from mq.store.context import Workspace, refuse_fifo
from mq.store.expiry import expire_some, expiring
from mq.store.holding import hold
from mq.store.index.ready_queue import ReadyQueue
from mq.store.indexing import MAX_LISTINGS, listing
from mq.store.receiving.lease import check_large, set_aside_leased
from mq.store.receiving.received_message import BODY, VISIBLE_NS, Received
from mq.store.receiving.taking import Taker
from mq.store.release import put_back_or_log
from mq.store.settings import visibility_ns

log = structlog.get_logger(__name__)

_MAX_LATE = 10
"""After this many leases that ended before the message could be delivered, a fetch ends empty: its
visibility timeout is too short for this disk."""

_AT_ONCE = 64
"""This many are taken in one go: all of them are open together, with their small bodies in
memory."""

MOST_FAILURES = 8
"""This many messages that cannot be read, one after the other, are a fault of the disk."""

PASSED = (None, Lost.BUSY)
"""What becomes of a message that stays in the queue, and goes back into its index."""


class Ask(NamedTuple):
    """The request of a fetch: up to `limit` messages, each hidden for `visibility_ns` (None means
    as long as the queue or the server says). The oldest `leave` messages are for those who asked
    before. `share` says how many bytes of bodies there is memory for."""

    visibility_ns: int | None = None
    limit: int = 1
    leave: int = 0
    share: Share | None = None


def receive(
    work: Workspace, queue: QueueName, visibility_ns: int | None = None
) -> Operation[Received | None]:
    """Take the oldest message that nobody else takes, or return None if there is none. See
    `receive_some`."""
    taken = yield from receive_some(work, queue, Ask(visibility_ns))
    return taken[0] if isinstance(taken, list) and taken else None


def receive_some(work: Workspace, queue: QueueName, ask: Ask) -> Operation[list[Received] | Lost]:
    """Take messages as `lease_some` does, whose bodies pass their seals. In place of a damaged one,
    which goes to `corrupt`, the next is taken."""
    for _ in range(_MAX_LATE):
        taken = yield from lease_some(work, queue, ask)
        if not isinstance(taken, list) or not taken:
            return taken
        if len(taken) > 1 or taken[0].body is None:
            taken = yield from check_bodies(work, taken)
        if taken:
            return taken
    return []


def lease_some(work: Workspace, queue: QueueName, ask: Ask) -> Operation[list[Received] | Lost]:
    """Take the oldest messages that nobody else takes, up to MAX_FETCH_BYTES of bodies or what the
    share of the memory holds, but at least one. Returns no messages if there are none, and
    Lost.BUSY if others hold all of them.

    On return the leases survive a power cut, and the bodies in memory pass their seals; the others
    are still to be checked by `check_bodies`. A crash before that leaves each message in its queue,
    or in `delay` until its stamp is due. After a lost race the next message is taken; a damaged one
    goes to `corrupt`, and the next is taken. Raises QueueNotFound, QueueIsFifo, StoreUnavailable.
    """
    refuse_fifo(work, queue)
    listings = late = 0
    while late < _MAX_LATE:
        yield from hold(work, queue)
        settings = work.settings.of(queue)
        if settings.paused:
            return []
        ready = work.loaded_index(queue)
        if ready is not None:
            if settings.ttl_seconds is not None and expire_some(work, queue, ready, settings):
                yield expiring(work, queue)
                continue
            hidden_ns = ask.visibility_ns
            if hidden_ns is None:
                hidden_ns = visibility_ns(work, settings)
            taken, was_busy = (
                _take_some(work, queue, ready, ask, hidden_ns)
                if ask.limit > 1
                else (yield from _take_one(work, queue, ready, ask, hidden_ns))
            )
            if taken:
                try:
                    yield taken_from(queue, len(taken))
                except BaseException:
                    close_all(work, taken)
                    raise
                taken = drop_late(work, taken)
                work.counts.of(queue).received += len(taken)
                if taken:
                    return taken
                late += 1
                continue
            if work.ready.get(queue) is ready and not work.may_have_changed(queue, ready):
                return Lost.BUSY if was_busy else []
        if listings == MAX_LISTINGS:
            break
        listings += 1
        yield listing(work, queue)
    return []


@lru_cache(maxsize=1024)
def taken_from(queue: QueueName, messages: int = 1) -> Unsynced:
    """Return what moving messages from the queue to `delay` leaves to sync."""
    implied = (f"{Folder.QUEUES}/{queue}",)
    return Unsynced((), (Folder.DELAY,), implied=implied, messages=messages)


def drop_late(work: Workspace, taken: list[Received]) -> list[Received]:
    """Return the messages whose lease still runs, and give the others back: the next to be received
    is the oldest one again. If the barrier outlasted the lease, another receiver may have the
    message by now, and then keeps it."""
    now_ns = work.clock_ns()
    if min(map(VISIBLE_NS, taken), default=now_ns + 1) > now_ns:
        return taken
    late = [each for each in taken if each.visible_ns <= now_ns]
    give_back(work, late)
    # Only this tells the index what the mover has brought back meanwhile.
    work.ready.drain()
    return [each for each in taken if each.visible_ns > now_ns]


def check_bodies(work: Workspace, taken: list[Received]) -> Operation[list[Received]]:
    """Check large bodies before any receiver gets their first byte. Returns the messages that are
    whole and still under their lease. A damaged one goes to `corrupt`."""
    if None not in map(BODY, taken):
        return taken
    good = taken
    try:
        checked: list[Received | None] = yield InWorker(check_large, work.files, taken)
        damaged = [each for each, found in zip(taken, checked, strict=True) if found is None]
        good = [each for each in checked if each is not None]
        for each in damaged:
            each.close(work.files)
        for each in damaged:
            set_aside_leased(work, each)
    except BaseException:
        give_back(work, good)
        raise
    return drop_late(work, good)


def give_back(work: Workspace, taken: Sequence[Received]) -> None:
    """Close messages, and put them back."""
    for each in taken:
        each.close(work.files)
        put_back_or_log(work, each)


def _take_one(
    work: Workspace, queue: QueueName, ready: ReadyQueue, ask: Ask, hidden_ns: int
) -> FileWork[tuple[list[Received], bool]]:
    """Do what `_take_some` does, for one message: its file calls are made with those of the round.
    One that the disk cannot read is passed over too, if it can read a later one."""
    passed: list[MessageId] = []
    failures: list[OSError] = []
    was_busy = False
    taker = Taker(work, queue, hidden_ns)
    try:
        while (message_id := _next(work, ready, ask.leave)) is not None:
            ready.begin_taking(message_id)
            came_again = False
            try:
                outcome = yield from taker.take(message_id)
            except OSError as error:
                failures.append(error)
                if error.errno != errno.EIO or len(failures) == MOST_FAILURES:
                    raise
                work.report(f"{Folder.QUEUES}/{queue}/{message_id}", str(error.strerror))
                passed.append(message_id)
                ready.discard(message_id)  # It is back, and would come next again.
                continue
            finally:
                came_again = ready.end_taking(message_id)
            if isinstance(outcome, Received):
                return [outcome], was_busy
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


def _take_some(
    work: Workspace, queue: QueueName, ready: ReadyQueue, ask: Ask, hidden_ns: int
) -> tuple[list[Received], bool]:
    """Go through the index until enough messages are taken, or it has run dry. Returns them, and
    whether others held some. The file calls are made in one go.

    An error in one message costs that message alone: it is reported once and passed over.
    """
    taken: list[Received] = []
    passed: list[MessageId] = []
    was_busy, is_in_order, used = False, True, 0
    taker = Taker(work, queue, hidden_ns)
    try:
        while len(taken) < ask.limit:
            # What comes back while the receive is in work may be older than what it has taken.
            is_in_order = is_in_order and not (taken and len(ready) <= ask.leave)
            ids = next_some(work, ready, ask.leave, min(ask.limit - len(taken), _AT_ONCE))
            if not ids:
                break
            room = AnswerRoom(used if taken else None, ask.share)
            outcomes = taker.take_together(ids, room)
            some = [each for each in outcomes if isinstance(each, Received)]
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
        log.error("fetch ended early", queue=queue, error=str(error))
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


def _raise_first(outcomes: Sequence[object]) -> None:
    for each in outcomes:
        if isinstance(each, Exception):
            raise each


def _next(work: Workspace, ready: ReadyQueue, leave: int) -> MessageId | None:
    ids = next_some(work, ready, leave, 1)
    return ids[0] if ids else None


def next_some(work: Workspace, ready: ReadyQueue, leave: int, limit: int) -> list[MessageId]:
    """Return the next messages to try, up to `limit`, or none when the index, with all events taken
    in, has run dry. Beside other servers the index first learns what they took: an event costs a
    tenth of a lost race."""
    peers = work.config.peers
    if peers:
        work.ready.drain_once()
    if len(ready) <= leave:
        work.ready.drain()
    return ready.pop_some(min(limit, len(ready) - leave), peers + 1)


def close_all(work: Workspace, taken: Sequence[Received]) -> None:
    for each in taken:
        each.close(work.files)
