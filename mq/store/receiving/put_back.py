"""Put back a message that its receiver never got, which also takes back the receive."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from mq.lifecycle import Folder
from mq.spool.message.held import Lost, hold_in
from mq.spool.message.seal import NO_LEASE, Seal
from mq.store.place import place_in
from mq.store.receiving.received_message import Received
from mq.store.release import redeliver_or_undo
from mq.store.shared_state import Workspace

log = structlog.get_logger(__name__)


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
        return redeliver_or_undo(work, place, held, current)


def put_back_or_log(work: Workspace, received: Received) -> None:
    """Put a message back as `put_back` does. An OSError is only logged: the lease ends anyway."""
    try:
        put_back(work, received)
    except OSError as error:
        log.warning("a message could not be put back", error=str(error))


def give_back(work: Workspace, taken: Iterable[Received]) -> None:
    """Close messages, and put them back."""
    for each in taken:
        each.close(work.files)
        put_back_or_log(work, each)


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
