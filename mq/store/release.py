"""Release a message before its lease ends."""

from __future__ import annotations

from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.message.held import Held
from mq.spool.message.seal import NO_LEASE, Seal, round_up
from mq.spool.redelivery import comes_back, lives_on, redeliver
from mq.store.place import Place
from mq.store.queue.settings import dead_letter_rule
from mq.store.shared_state import Workspace


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
    return redeliver_or_undo(work, place, held, before)


def redeliver_now(
    work: Workspace, queue: QueueName, message_id: MessageId, held: Held, before: Seal | None
) -> QueueName | None:
    """Move a held message from `delay` to its queue, or to the dead letters; `before` is its seal
    as its receiver knows it. Returns the queue that it is in now, or None if it is gone, or its
    queue is. Raises BlockingIOError if another process makes, deletes or purges the queue of the
    dead letters, and OSError."""
    spool = work.spool
    delay, rule = spool.opened(Folder.DELAY), dead_letter_rule(work, queue)
    went = redeliver(spool.moves, held, delay, spool.queues, rule)
    if went is not None:
        work.ready.add(went, message_id)
        counted = work.counts.of(queue)
        counted.redelivered += went == queue and comes_back(before)
        counted.dead_lettered += went != queue
        if (why := lives_on(held, rule, went)) is not None:
            work.report_living(held.name, why)
    return went


def redeliver_or_undo(work: Workspace, place: Place, held: Held, before: Seal | None) -> bool:
    """Redeliver a held message. Returns False if it stays where it is; then, and if this fails,
    `before` becomes its seal again."""
    went = None
    try:
        went = redeliver_now(work, place.queue, place.message_id, held, before)
    finally:
        if went is None and before is not None and before != held.seal:
            held.write_seal(before)
    return went is not None
