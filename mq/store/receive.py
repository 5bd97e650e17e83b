"""Receive: take the oldest messages under a lease."""

from __future__ import annotations

from typing import NamedTuple

import structlog

from mq.barrier import Unsynced
from mq.config import MAX_FETCH_BYTES
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, queue_path
from mq.operation import Operation
from mq.ready import ReadyQueue
from mq.spool.message import FAULTS_OF_ONE_MESSAGE, Lost, hold
from mq.store.lease import Place, Received, begin_lease, take_held
from mq.store.workspace import Retry, Workspace

log = structlog.get_logger(__name__)

_MAX_EXPIRED = 10
"""After so many barriers that outlasted the lease a fetch ends empty: its visibility is too short
for this disk."""


class Ask(NamedTuple):
    """What a fetch asks for: up to `limit` messages, each for `visibility_ns`; the oldest `leave`
    are for those who asked before."""

    visibility_ns: int
    limit: int = 1
    leave: int = 0


def receive(
    work: Workspace, queue: QueueName, visibility_ns: int
) -> Operation[Received | Retry | None]:
    """Take the oldest message that nobody else takes; None if there is none. See
    `receive_some`."""
    taken = yield from receive_some(work, queue, Ask(visibility_ns))
    if isinstance(taken, Retry):
        return None if taken is Retry.WAIT else taken
    return taken[0] if taken else None


def receive_some(work: Workspace, queue: QueueName, ask: Ask) -> Operation[list[Received] | Retry]:
    """Take the oldest messages that nobody else takes, as far as MAX_FETCH_BYTES of bodies, but at
    least one. Empty if there is none; Retry.WAIT if others hold all there are.

    On return the leases survive a power cut. A crash before that leaves each message in its queue,
    or in `delay` until its stamp is due. A lost race takes the next message; a damaged one goes to
    `corrupt` and the next is taken. Raises QueueNotFound, StoreUnavailable.
    """
    ready = work.loaded_index(queue)
    if ready is None:
        return Retry.LIST
    unsynced = Unsynced((), (Folder.DELAY, f"{Folder.QUEUES}/{queue}"))
    was_busy = False
    for _ in range(_MAX_EXPIRED):
        taken, was_busy = _take_some(work, queue, ready, ask)
        if not taken:
            break
        try:
            yield unsynced
        except BaseException:
            _close(work, taken)
            raise
        now_ns = work.clock_ns()
        if taken[-1].visible_ns > now_ns and taken[0].visible_ns > now_ns:
            work.counts.received += len(taken)
            return taken
        # The barrier outlasted leases: somebody else may have those messages by now.
        _close(work, [each for each in taken if each.visible_ns <= now_ns])
        if in_time := [each for each in taken if each.visible_ns > now_ns]:
            work.counts.received += len(in_time)
            return in_time
    if work.ready.get(queue) is not ready or work.may_have_changed(queue, ready):
        return Retry.LIST
    return Retry.WAIT if was_busy else []


def _take_some(
    work: Workspace, queue: QueueName, ready: ReadyQueue, ask: Ask
) -> tuple[list[Received], bool]:
    """Go through the index until enough messages are ours, or it has run dry; and whether others
    held some.

    What is wrong with one message costs that message alone: it is reported once and passed over.
    """
    taken: list[Received] = []
    passed: list[MessageId] = []
    room, was_busy = MAX_FETCH_BYTES, False
    try:
        while len(taken) < ask.limit:
            message_id = _next(work, ready, ask.leave)
            if message_id is None:
                break
            outcome = _take(work, queue, message_id, ask.visibility_ns, room if taken else None)
            if isinstance(outcome, Received):
                taken.append(outcome)
                room -= outcome.length
                continue
            if outcome is Lost.GONE:
                # Somebody else takes messages too, and what more they took waits to be read.
                work.ready.drain()
            if outcome is not Lost.GONE and outcome is not Lost.FOREIGN:
                passed.append(message_id)
            if outcome is None:
                break
            was_busy = was_busy or outcome is Lost.BUSY
    except OSError as error:
        if not taken:
            raise
        log.error("fetch ended early", queue=queue, error=str(error))
    finally:
        # They are still there, for all that the index can know.
        for message_id in passed:
            work.ready.restore(queue, message_id)
    return taken, was_busy


def _next(work: Workspace, ready: ReadyQueue, leave: int) -> MessageId | None:
    """The next message to try; None when the index, with all events taken in, has run dry."""
    among = work.config.peers + 1
    if len(ready) > leave and (message_id := ready.pop(among)) is not None:
        return message_id
    work.ready.drain()
    return ready.pop(among) if len(ready) > leave else None


def _take(
    work: Workspace, queue: QueueName, message_id: MessageId, visibility_ns: int, room: int | None
) -> Received | Lost | OSError | None:
    """Lock, read, stamp, rename; None if its body has more than `room` bytes. What is wrong with
    this message alone is returned. A failure leaves the message as it was."""
    place = Place(Folder.QUEUES, queue, message_id, queue_path(queue, message_id))
    try:
        held = hold(work.files, work.spool.fd(Folder.QUEUES), place.name)
        if not isinstance(held, Lost):
            if room is not None and held.status.st_size > room:
                held.close()
                return None
            return take_held(work, place, held, visibility_ns, begin_lease)
        if held is Lost.FOREIGN:
            work.report(f"{Folder.QUEUES}/{place.name}", held.value)
        return held
    except OSError as error:
        if error.errno not in FAULTS_OF_ONE_MESSAGE:
            work.ready.restore(queue, message_id)
            raise
        work.report(f"{Folder.QUEUES}/{place.name}", str(error.strerror))
        return error


def _close(work: Workspace, taken: list[Received]) -> None:
    for each in taken:
        each.close(work.files)
