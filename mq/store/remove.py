"""Remove: rename to `remove`, from wherever the message is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mq.barrier import Unsynced
from mq.errors import LeaseMismatch, MQError
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.operation import Operation
from mq.spool.message import Lost, hold
from mq.store.together import together
from mq.store.workspace import Retry, Workspace, no_message

_ORDER = (Folder.DELAY, Folder.NEW, *(Folder.QUEUES, Folder.DELAY) * 3, Folder.QUEUES)
"""Leased messages are the common case. Then the way a message goes, and round again: redeliveries
and receives of other servers may pass between two looks."""

_ALREADY_REMOVED = Unsynced((), (Folder.REMOVE,))


def remove(work: Workspace, queue: QueueName, message_id: MessageId) -> Operation[Retry | None]:
    """Remove a message wherever it is, also if it is removed already.

    On return it never comes back, not after a power cut either. Takes no lock: the rename decides
    every race. Raises QueueNotFound, MessageNotFound, StoreUnavailable.
    """
    work.require_queue(queue)
    for source, name in _places(queue, message_id):
        if work.spool.move_aside(source, name, Folder.REMOVE, file_name(queue, message_id)):
            _forget(work, source, queue, message_id)
            _remove_other_names(work, queue, message_id)
            yield _unsynced(source, queue)
            work.counts.removed += 1
            return None
    if not work.spool.exists(Folder.REMOVE, file_name(queue, message_id)):
        raise no_message(queue, message_id)
    # The rename may be another request's or server's, and not durable yet.
    yield _ALREADY_REMOVED
    return None


def remove_leased(
    work: Workspace, queue: QueueName, message_id: MessageId, leases: frozenset[int]
) -> Operation[Retry | None]:
    """Remove a message if its current lease is one of `leases`; compared and moved under its lock.

    Returns Retry.WAIT if somebody else holds the lock. Raises LeaseMismatch and what `remove`
    raises.
    """
    work.require_queue(queue)
    target = file_name(queue, message_id)
    for source, name in (*_places(queue, message_id), (Folder.REMOVE, target)):
        held = hold(work.files, work.spool.fd(source), name)
        if held is Lost.BUSY:
            return Retry.WAIT
        if isinstance(held, Lost):
            continue
        with held:
            if held.lease not in leases:
                raise LeaseMismatch(
                    f"message {message_id} of queue {queue} is not under that lease: it ran out "
                    "and somebody else received the message; do not remove it"
                )
            moved = source is Folder.REMOVE or work.spool.move_aside(
                source, name, Folder.REMOVE, target
            )
        if moved:
            _forget(work, source, queue, message_id)
            _remove_other_names(work, queue, message_id)
            yield _unsynced(source, queue)
            work.counts.removed += source is not Folder.REMOVE
            return None
    raise no_message(queue, message_id)


def remove_many(
    work: Workspace,
    queue: QueueName,
    ids: Sequence[MessageId],
    leases: frozenset[int] | None,
) -> Operation[list[Retry | MQError | None]]:
    """Remove several messages, each as above; what is wrong with one is its outcome. Raises
    QueueNotFound, StoreUnavailable."""
    work.require_queue(queue)
    if leases is None:
        removals: list[Operation[Retry | None]] = [remove(work, queue, each) for each in ids]
    else:
        removals = [remove_leased(work, queue, each, leases) for each in ids]
    return (yield from together(removals))


def _places(queue: QueueName, message_id: MessageId) -> Iterator[tuple[Folder, str]]:
    flat, below = file_name(queue, message_id), queue_path(queue, message_id)
    return ((folder, below if folder is Folder.QUEUES else flat) for folder in _ORDER)


def _remove_other_names(work: Workspace, queue: QueueName, message_id: MessageId) -> None:
    """Where a move is a link and an unlink, a crash between the two leaves both names."""
    if not work.files.renames_without_replacing:
        for source, name in _places(queue, message_id):
            work.spool.move_aside(source, name, Folder.REMOVE, file_name(queue, message_id))


def _forget(work: Workspace, source: Folder, queue: QueueName, message_id: MessageId) -> None:
    ready = work.ready.get(queue)
    if source is Folder.QUEUES and ready is not None:
        ready.discard(message_id)


def _unsynced(source: Folder, queue: QueueName) -> Unsynced:
    if source is Folder.REMOVE:
        return _ALREADY_REMOVED
    folder = f"{source}/{queue}" if source is Folder.QUEUES else str(source)
    return Unsynced((), (Folder.REMOVE, folder))
