"""Redrive: dead letters go back to the queue they came from."""

from __future__ import annotations

from mq.barrier import Unsynced
from mq.config import MAX_FETCH_MESSAGES
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, queue_path
from mq.operation import Operation
from mq.spool.message import FAULTS_OF_ONE_MESSAGE, NO_LEASE, Lost, hold
from mq.store.workspace import Retry, Workspace


def redrive(work: Workspace, queue: QueueName, dead: QueueName) -> Operation[int | Retry]:
    """Move ready messages of `dead` to `queue`, oldest first; returns how many, at the most
    MAX_FETCH_MESSAGES.

    Each keeps its id, type and publication time, and with them its place in the order. Its count
    begins anew: else it would be buried again after one receive. On return they survive a power
    cut; after a crash each is in one of the two queues. Raises QueueNotFound, StoreUnavailable.
    """
    work.require_queue(queue)
    ready = work.loaded_index(dead)
    if ready is None:
        return Retry.LIST
    work.ready.drain()
    passed: list[MessageId] = []
    moved = 0
    while moved < MAX_FETCH_MESSAGES and (message_id := ready.pop()) is not None:
        try:
            outcome = _move(work, queue, dead, message_id)
        except OSError as error:
            if error.errno not in FAULTS_OF_ONE_MESSAGE:
                raise
            work.report(f"{Folder.QUEUES}/{dead}/{message_id}", str(error.strerror))
            outcome = Lost.BUSY
        if outcome is None:
            work.ready.add(queue, message_id)
            moved += 1
        elif outcome is Lost.BUSY:
            passed.append(message_id)
    for message_id in passed:
        work.ready.restore(dead, message_id)
    if moved:
        yield Unsynced((), (f"{Folder.QUEUES}/{dead}", f"{Folder.QUEUES}/{queue}"))
    return moved


def _move(work: Workspace, queue: QueueName, dead: QueueName, message_id: MessageId) -> Lost | None:
    """None if it was moved. A failure leaves the message as it was."""
    name = queue_path(dead, message_id)
    held = hold(work.files, work.spool.fd(Folder.QUEUES), name)
    if isinstance(held, Lost):
        return held
    with held:
        before, moved = held.seal, False
        try:
            if before is not None:
                held.write_seal(before._replace(receive_count=0, lease=NO_LEASE))
            target = queue_path(queue, message_id)
            moved = work.spool.move(Folder.QUEUES, name, Folder.QUEUES, target)
        finally:
            if before is not None and not moved:
                held.write_seal(before)
        return None if moved else Lost.GONE
