"""Purge: remove every message of a queue, and keep the queue."""

from __future__ import annotations

from mq.commit.barrier import Unsynced
from mq.commit.operation import InWorker, Operation
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder, PurgeScope
from mq.names import QueueName
from mq.spool.disk_errors import NO_ROOM
from mq.spool.leftovers import Leftovers
from mq.spool.queue.purging import Purge
from mq.store.patience import with_delivery
from mq.store.shared_state import Workspace, no_queue, not_there


def purge(work: Workspace, queue: QueueName, scope: PurgeScope) -> Operation[int]:
    """Remove all messages that the queue has when this begins, and return how many there were.

    On return they never come back, not even after a power cut. A message that is published
    meanwhile is removed or stays; after a crash each is removed or as it was. Raises QueueNotFound,
    StoreUnavailable.
    """
    work.require_queue(queue)
    yield from _deliver_leftovers(work, queue)
    purging = Purge(work.spool, queue, scope, work.report)
    try:
        yield InWorker(purging.begin)
        while (yield InWorker(purging.go_on)):
            pass
        yield InWorker(purging.close)
    except (FileNotFoundError, NotADirectoryError):
        raise not_there(work, no_queue(queue)) from None
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise StoreUnavailable(
            f"queue {queue} cannot be purged now, which takes two folders: {error.strerror}; "
            "remove some messages, or delete a queue, and try again once the reaper has made room"
        ) from error
    finally:
        purging.close()
        work.counts.of(queue).removed += purging.removed
        work.ready.forget(queue)
    folders = (Folder.REMOVE, Folder.DELAY, Folder.QUEUES, f"{Folder.QUEUES}/{queue}")
    yield Unsynced((), folders)
    return purging.removed


def _deliver_leftovers(work: Workspace, queue: QueueName) -> Operation[None]:
    """Deliver what is published and not in the queue. Raises StoreUnavailable if another process
    holds one of those messages for PURGE_LOCK_SECONDS, or an error of the disk keeps one from the
    queue: it would arrive there after the purge."""
    leftovers = Leftovers(work.spool, queue, work.report)
    patience = with_delivery(queue)
    while not ((yield InWorker(leftovers.deliver)) or leftovers.was_hindered):
        yield patience.pause()
    if leftovers.was_hindered:
        raise StoreUnavailable(
            f"queue {queue} cannot be purged now: a message of it in {Folder.NEW} does not come to "
            "the queue; the log says why; try again"
        )
