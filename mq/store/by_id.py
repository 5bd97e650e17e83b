"""By id: take that very message, ready, delayed or leased; prolong its lease; or release it."""

from __future__ import annotations

from typing import NamedTuple

from mq.barrier import Unsynced
from mq.errors import LeaseMismatch
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name
from mq.operation import Operation
from mq.spool.message import NO_LEASE, Held, Lost, hold
from mq.store.lease import Place, Received, begin_lease, keep_lease, place_in, take_held
from mq.store.release import end_lease, give_back
from mq.store.workspace import Retry, Workspace, no_message

_ORDER = (Folder.DELAY, Folder.QUEUES) * 3
"""Leased messages are the common case. Round again: redeliveries and receives of other servers may
pass between two looks."""


class Guard(NamedTuple):
    """A condition on the current lease: it is one of `leases`, or any with `is_any`."""

    leases: frozenset[int]
    is_any: bool = False

    def admits(self, lease: int) -> bool:
        return lease != NO_LEASE if self.is_any else lease in self.leases


def take(
    work: Workspace,
    queue: QueueName,
    message_id: MessageId,
    visibility_ns: int,
    guard: Guard | None,
) -> Operation[Received | Retry]:
    """Take a message for `visibility_ns` from now. Without a guard a new lease begins; with one the
    current lease and the count are kept.

    On return it survives a power cut. A crash before that leaves the message under its earlier
    lease, or in `delay` until one of the two stamps is due. Returns Retry.WAIT if somebody else
    holds the lock, or the barrier outlasted the lease. Raises QueueNotFound, MessageNotFound,
    LeaseMismatch, StoreUnavailable.
    """
    found = _find(work, queue, message_id, guard)
    if isinstance(found, Retry):
        return found
    place, held = found
    received = take_held(
        work, place, held, visibility_ns, begin_lease if guard is None else keep_lease
    )
    if isinstance(received, Lost):
        return Retry.WAIT
    if place.folder is Folder.QUEUES:
        _forget(work, queue, message_id)
        unsynced = Unsynced((), (Folder.DELAY, f"{Folder.QUEUES}/{queue}"))
    else:
        # Only its attributes changed: the log has them once the file itself is synced.
        unsynced = Unsynced((received.fd,), (Folder.DELAY,))
    try:
        yield unsynced
    except BaseException:
        received.close(work.files)
        raise
    if received.visible_ns <= work.clock_ns():
        received.close(work.files)
        return Retry.WAIT
    work.counts.received += not received.is_prolonged
    return received.without_idle_file(work.files)


def release(
    work: Workspace, queue: QueueName, message_id: MessageId, guard: Guard | None
) -> Operation[Retry | None]:
    """End a message's lease or delay and put it into its queue, or into the dead letters, at once.

    Not durable by itself: undone by a crash, the message comes back when its stamp is due. Returns
    Retry.WAIT if somebody else holds the lock. Raises QueueNotFound, MessageNotFound,
    LeaseMismatch, StoreUnavailable.
    """
    found = _find(work, queue, message_id, guard)
    if isinstance(found, Retry):
        return found
    place, held = found
    with held:
        if place.folder is Folder.QUEUES:
            end_lease(work, held)
            return None
        return None if give_back(work, place, held) else Retry.WAIT
    yield


def _find(
    work: Workspace, queue: QueueName, message_id: MessageId, guard: Guard | None
) -> tuple[Place, Held] | Retry:
    work.require_queue(queue)
    for folder in _ORDER:
        place = place_in(folder, queue, message_id)
        held = hold(work.files, work.spool.fd(folder), place.name)
        if held is Lost.BUSY:
            return Retry.WAIT
        if isinstance(held, Lost):
            continue
        if guard is not None and not guard.admits(held.lease):
            held.close()
            raise LeaseMismatch(
                f"message {message_id} of queue {queue} is not under that lease: it ran out and "
                "somebody else received the message, or it was released; drop your work on it"
            )
        return place, held
    if work.spool.exists(Folder.NEW, file_name(queue, message_id)):
        # Published, and on its way to its queue.
        return Retry.WAIT
    raise no_message(queue, message_id)


def _forget(work: Workspace, queue: QueueName, message_id: MessageId) -> None:
    ready = work.ready.get(queue)
    if ready is not None:
        ready.discard(message_id)
