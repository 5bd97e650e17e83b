"""A message is handed over for a batch: the message is removed in the step that publishes it."""

from __future__ import annotations

from contextlib import suppress

from mq.commit.operation import Operation
from mq.disk.file_work import FileWork
from mq.errors import InvalidRequest, LeaseMismatch, MessageNotFound
from mq.lifecycle import Folder
from mq.names import file_name
from mq.spool.handovers import name_in_handover
from mq.spool.message.held import Held, Lost
from mq.spool.message.opening import move_held, open_held
from mq.store.publishing.filling import Batch, vanished
from mq.store.removing.remove import ABSENT, places
from mq.store.removing.remove_under_lease import Removed, UnderLease, remove_leased
from mq.store.shared_state import Workspace, no_message, not_there, refuse_fifo


def check_removed(work: Workspace, batch: Batch) -> None:
    """Raise InvalidRequest if a message is to be removed for one that its queue would take for
    the same; QueueIsFifo for a message whose group the gateway keeps."""
    if batch.removes is None:
        return
    queue, message_id, _ = batch.removes
    refuse_fifo(work, queue)
    if any(each.queue == queue and message_id in each.own_ids for each in batch.parts):
        raise InvalidRequest(
            f"message {message_id} of queue {queue} cannot be removed for one of the same id "
            "there; publish that under another id"
        )


def end_removal(work: Workspace, removes: Removed) -> Operation[None]:
    """Remove the message whose batch was published before. It may be gone: the answer of the
    request that handed it over was lost. Raises LeaseMismatch, StoreUnavailable."""
    if removes is not None:
        with suppress(*ABSENT):
            yield from remove_leased(work, *removes)


def take_message(work: Workspace, batch: Batch, asked: UnderLease) -> FileWork[bool]:
    """Move the message that a batch removes into its open set, if its lease is the current one:
    from here on the batch is published. Its queues are held, that of the message too, and the lock
    of the message's id, so that no other message has its name meanwhile. Returns False if another
    process holds the message's lock. Raises MessageNotFound, LeaseMismatch, StoreUnavailable,
    OSError."""
    queue, message_id, leases = asked
    held = yield from open_held(work.spool, Folder.DELAY, file_name(queue, message_id))
    if held is Lost.BUSY:
        return False
    if isinstance(held, Held):
        with held:
            target = name_in_handover(batch.name, queue, message_id)
            if held.lease in leases:
                if (yield from move_held(work.spool, Folder.DELAY, held, Folder.NEW, target)):
                    return True
                if not work.spool.exists(Folder.NEW, batch.name.open):
                    raise vanished(work.spool, batch.queues)
    if work.spool.exists(Folder.REMOVE, file_name(queue, message_id)):
        raise MessageNotFound(
            f"message {message_id} of queue {queue} was removed already: perhaps by a request "
            "like this one whose answer was lost, and which has published its messages then"
        )
    if any(work.spool.exists(*each) for each in places(queue, message_id)):
        raise LeaseMismatch(
            f"message {message_id} of queue {queue} does not have that lease: the lease ran out, "
            "or the message was released; nothing was published"
        )
    raise not_there(work, no_message(queue, message_id))
