"""Visibility: hide a received message for longer or shorter, or show it again, under its lease.

Unlike a release this keeps the lease: until another receiver has the message, it may still be
removed under it.
"""

from __future__ import annotations

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name
from mq.spool.message.held import Held, Lost, hold_in
from mq.spool.message.seal import due_ns, is_due, round_up
from mq.store.holding import hold
from mq.store.patience import with_message
from mq.store.release import redeliver_now
from mq.store.shared_state import Workspace


def change_visibility(
    work: Workspace, queue: QueueName, message_id: MessageId, lease: int, visibility_ns: int
) -> Operation[bool]:
    """Hide a message for `visibility_ns` from now; with 0 put it into its queue, or the dead
    letters, at once. Returns False if it is not under that lease, or the lease is over.

    On return it survives a power cut. A crash before that leaves the earlier visibility, or the new
    one. Waits BUSY_WAIT_SECONDS while another process holds the lock. Raises QueueNotFound,
    StoreUnavailable.
    """
    work.require_queue(queue)
    patience = with_message(message_id)
    while True:
        if not visibility_ns:
            yield from hold(work, queue)
        held = hold_in(work.spool, Folder.DELAY, file_name(queue, message_id))
        if held is Lost.BUSY:
            yield patience.pause()
            continue
        if isinstance(held, Lost):
            return False
        with held:
            if held.lease != lease or is_due(due_ns(held.status, 0), work.clock_ns()):
                return False
            if visibility_ns:
                return (yield from _hide(work, held, visibility_ns))
            try:
                went = redeliver_now(work, queue, message_id, held, held.seal)
            except BlockingIOError:
                pass  # another process makes, deletes or purges the queue of the dead letters
            else:
                if went is None:
                    return False
                # Others may receive it before the barrier is over.
                work.files.unlock(held.fd)
                yield Unsynced((), (f"{Folder.QUEUES}/{went}",), implied=(Folder.DELAY,))
                return True
        yield patience.pause()


def _hide(work: Workspace, held: Held, visibility_ns: int) -> Operation[bool]:
    due = round_up(work.clock_ns() + visibility_ns, work.granularity_ns)
    work.files.stamp(held.fd, due)
    # No other process needs to wait for the barrier.
    work.files.unlock(held.fd)
    yield Unsynced((held.fd,), (), implied=(Folder.DELAY,))
    return True
