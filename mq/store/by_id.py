"""Operations by id: take a certain message, ready, delayed or leased; prolong its lease; or release
it."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation
from mq.errors import LeaseMismatch
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name
from mq.spool.finder import published_batches
from mq.spool.message.held import Held, Lost, hold_in
from mq.spool.message.opening import OpenedMessage
from mq.spool.message.seal import NO_LEASE
from mq.store.holding import once_unlocked
from mq.store.patience import with_message
from mq.store.place import Place, place_in
from mq.store.queue import settings
from mq.store.queue.expiry import expire_held
from mq.store.receiving.lease import begin_lease, keep_lease, take_held
from mq.store.receiving.put_back import give_back
from mq.store.receiving.receive import check_bodies, taken_from
from mq.store.receiving.received_message import Received
from mq.store.release import end_lease, release_held
from mq.store.shared_state import Workspace, no_message, refuse_fifo

_ORDER = (Folder.DELAY, Folder.QUEUES, Folder.NEW, *(Folder.QUEUES, Folder.DELAY) * 2)
"""Leased messages are the common case. The places behind `new` are looked at again after it, and
several times: a delivery, and redeliveries and receives of other servers, may pass between two
looks."""


class Guard(NamedTuple):
    """A condition on the current lease: it must be one of `leases`, or any lease with `is_any`."""

    leases: frozenset[int]
    is_any: bool = False

    def admits(self, lease: int) -> bool:
        return lease != NO_LEASE if self.is_any else lease in self.leases

    def lacking(self) -> str:
        """Return what is wrong with a message that it does not admit."""
        if self.is_any:
            return "has no lease: nobody has received it, or it was released"
        return (
            "does not have that lease: the lease ran out and another receiver has the message, or "
            "it was released; drop your work on it"
        )


def take(
    work: Workspace,
    queue: QueueName,
    message_id: MessageId,
    visibility_ns: int | None,
    guard: Guard | None,
) -> Operation[Received]:
    """Take a message for `visibility_ns` from now. Without a guard a new lease begins; with one the
    current lease and the count are kept.

    On return it survives a power cut, and the body passes its seal. A crash before that leaves the
    message under its earlier lease, or in `delay` until one of the two stamps is due. Waits
    BUSY_WAIT_SECONDS while another process holds the lock. Raises QueueNotFound, MessageNotFound,
    LeaseMismatch, StoreUnavailable.
    """
    patience = with_message(message_id)
    while True:
        received = yield from _take(work, queue, message_id, visibility_ns, guard)
        checked = yield from check_bodies(work, [received] if received is not None else [])
        if checked:
            return checked[0]
        yield patience.pause()


def _take(
    work: Workspace,
    queue: QueueName,
    message_id: MessageId,
    visibility_ns: int | None,
    guard: Guard | None,
) -> Operation[Received | None]:
    """Try to take a message. Returns None if another process holds the lock, or the barrier
    outlasted the lease."""
    hidden_ns = settings.visibility_ns(work, work.settings.of(queue), visibility_ns)
    finding = partial(hold_by_id, work, queue, message_id, guard)
    found = yield from once_unlocked(queue, finding)
    if found is None:
        return None
    place, held = found
    _refuse_expired(work, place, held)
    received = yield from take_held(
        work,
        place,
        OpenedMessage(held),
        hidden_ns,
        begin_lease if guard is None else keep_lease,
    )
    if isinstance(received, Lost):
        return None
    if place.folder is Folder.QUEUES:
        work.ready.discard(queue, message_id)
        unsynced = taken_from(queue)
    else:
        # Only its attributes changed, and syncing the file itself brings those into the log.
        unsynced = Unsynced((received.fd,), (), implied=(Folder.DELAY,))
    try:
        yield unsynced
    except BaseException:
        received.close(work.files)
        raise
    if received.visible_ns <= work.clock_ns():
        give_back(work, [received])
        return None
    work.counts.of(queue).received += not received.is_prolonged
    return received.without_idle_file(work.files)


def _refuse_expired(work: Workspace, place: Place, held: Held) -> None:
    """Remove a ready message that is too old, and raise MessageNotFound. If this raises, the
    message is closed."""
    try:
        if place.folder is Folder.QUEUES and expire_held(work, place, held):
            raise no_message(place.queue, place.message_id)
    except BaseException:
        held.close()
        raise


def release(
    work: Workspace, queue: QueueName, message_id: MessageId, guard: Guard | None
) -> Operation[None]:
    """End a message's lease or delay, and put it into its queue or into the dead letters at once.

    This is not durable by itself: if a crash undoes it, the message comes back when its stamp is
    due. Waits BUSY_WAIT_SECONDS while another process holds the lock. Raises QueueNotFound,
    MessageNotFound, LeaseMismatch, StoreUnavailable.
    """
    patience = with_message(message_id)
    releasing = partial(_release, work, queue, message_id, guard)
    while not (yield from once_unlocked(queue, releasing)):
        yield patience.pause()


def _release(work: Workspace, queue: QueueName, message_id: MessageId, guard: Guard | None) -> bool:
    found = hold_by_id(work, queue, message_id, guard)
    if found is None:
        return False
    place, held = found
    with held:
        if place.folder is Folder.QUEUES:
            end_lease(work, held)
            return True
        work.hold_queue(queue)
        try:
            return release_held(work, place, held)
        except BlockingIOError:
            return False  # another process makes, deletes or purges the queue of the dead letters


def hold_by_id(
    work: Workspace, queue: QueueName, message_id: MessageId, guard: Guard | None
) -> tuple[Place, Held] | None:
    """Return the message under its lock: ready, leased or delayed. Returns None if another process
    holds the lock, or the message is on its way to its queue. Raises QueueNotFound, QueueIsFifo,
    MessageNotFound, LeaseMismatch, StoreUnavailable."""
    work.require_queue(queue)
    refuse_fifo(work, queue)
    for folder in _ORDER:
        if folder is Folder.NEW:
            if _is_on_its_way(work, queue, message_id):
                return None
            continue
        place = place_in(folder, queue, message_id)
        if folder is Folder.QUEUES:
            work.hold_queue(queue)
        held = hold_in(work.spool, folder, place.name)
        if held is Lost.BUSY:
            return None
        if isinstance(held, Lost):
            continue
        if guard is not None and not guard.admits(held.lease):
            held.close()
            raise LeaseMismatch(f"message {message_id} of queue {queue} {guard.lacking()}")
        return place, held
    raise no_message(queue, message_id)


def _is_on_its_way(work: Workspace, queue: QueueName, message_id: MessageId) -> bool:
    name = file_name(queue, message_id)
    coming = (name, *(f"{batch}/{name}" for batch in published_batches(work.spool, queue)))
    return any(work.spool.exists(Folder.NEW, each) for each in coming)
