"""Release a message before its lease ends; or put it back, which also takes back the receive."""

from __future__ import annotations

import structlog

from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.message.held import Held, Lost, hold_in
from mq.spool.message.seal import NO_LEASE, Seal, round_up
from mq.spool.redelivery import lives_on, redeliver
from mq.store.context import Workspace
from mq.store.place import Place, place_in
from mq.store.receiving.received_message import Received
from mq.store.settings import dead_letter_rule

log = structlog.get_logger(__name__)


def end_lease(work: Workspace, held: Held) -> None:
    """End a lease: from here on it removes and prolongs nothing."""
    if held.seal is not None and held.seal.lease != NO_LEASE:
        held.write_seal(held.seal._replace(lease=NO_LEASE))
    elif not work.spool.has_seals:
        # Without a seal the stamp is the lease.
        work.files.stamp(held.fd, round_up(work.clock_ns(), work.granularity_ns))


def release_held(work: Workspace, place: Place, held: Held) -> bool:
    """End the lease of a held message in `delay`, and move it to its queue or to the dead letters.

    Returns False if it stays where it is: it is gone, or its queue is. A failure leaves the lease.
    """
    before = held.seal
    end_lease(work, held)
    return _move(work, place, held, before)


def put_back(work: Workspace, received: Received) -> bool:
    """Put back a message that its receiver never got, at once and without counting its receive. A
    message that was taken out of turn is under its earlier lease or delay again; a lease that was
    only prolonged stays so.

    If its lease was over and it is back already, its receive is taken back all the same. Returns
    False if another receiver has it, or it is gone. This is not durable by itself: a crash undoes
    it, and the message comes back when its lease runs out.
    """
    if received.is_prolonged:
        return False
    place = place_in(Folder.DELAY, received.queue, received.message_id)
    held = hold_in(work.spool, place.folder, place.name)
    if held is Lost.GONE:
        return _uncount(work, received)
    if isinstance(held, Lost):
        return False
    with held:
        if held.lease != received.lease:
            return False
        before = received.before
        is_still_due = before is not None and before.due_ns > work.clock_ns()
        lease = before.lease if before is not None and is_still_due else NO_LEASE
        current = held.seal
        if current is not None:
            held.write_seal(_not_received(current, lease))
        if before is not None and is_still_due:
            work.files.stamp(held.fd, before.due_ns)
            return True
        return _move(work, place, held, current)


def _uncount(work: Workspace, received: Received) -> bool:
    """Take back the receive of a message that is in its queue again."""
    place = place_in(Folder.QUEUES, received.queue, received.message_id)
    held = hold_in(work.spool, place.folder, place.name)
    if isinstance(held, Lost):
        return False
    with held:
        if held.seal is None or held.lease != received.lease:
            return False
        held.write_seal(_not_received(held.seal, NO_LEASE))
        return True


def _not_received(seal: Seal, lease: int) -> Seal:
    """Return the seal without its last receive, under the lease that there was before."""
    count = max(seal.receive_count - 1, 0)
    first_ns = seal.first_received_ns if count else 0
    return seal._replace(receive_count=count, lease=lease, first_received_ns=first_ns)


def put_back_or_log(work: Workspace, received: Received) -> None:
    """Put a message back as `put_back` does. An OSError is only logged: the lease ends anyway."""
    try:
        put_back(work, received)
    except OSError as error:
        log.warning("a message could not be put back", error=str(error))


def redeliver_now(
    work: Workspace, queue: QueueName, message_id: MessageId, held: Held
) -> QueueName | None:
    """Move a held message from `delay` to its queue, or to the dead letters. Returns the queue that
    it is in now, or None if it is gone, or its queue is. Raises BlockingIOError if another process
    makes, deletes or purges the queue of the dead letters, and OSError."""
    spool = work.spool
    delay, rule = spool.opened(Folder.DELAY), dead_letter_rule(work, queue)
    went = redeliver(spool.moves, held, delay, spool.queues, rule)
    if went is not None:
        work.ready.add(went, message_id)
        counted = work.counts.of(queue)
        counted.redelivered += went == queue
        counted.dead_lettered += went != queue
        if (why := lives_on(held, rule, went)) is not None:
            work.report_living(held.name, why)
    return went


def _move(work: Workspace, place: Place, held: Held, before: Seal | None) -> bool:
    """Redeliver a held message. If that fails, `before` becomes its seal again."""
    went = None
    try:
        went = redeliver_now(work, place.queue, place.message_id, held)
    finally:
        if went is None and before is not None and before != held.seal:
            held.write_seal(before)
    return went is not None
