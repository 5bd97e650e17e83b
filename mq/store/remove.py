"""Remove: rename to `remove`, from wherever the message is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation, Together
from mq.errors import LeaseMismatch, MQError
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.spool.finder import sealed_batches
from mq.spool.message import Lost, hold_in
from mq.spool.second_names import other_queue
from mq.store.context import Workspace, no_message
from mq.store.holding import once_unlocked
from mq.store.patience import Patience, with_message

_ORDER = (Folder.DELAY, Folder.NEW, *(Folder.QUEUES, Folder.DELAY) * 3, Folder.QUEUES)
"""Leased messages are the common case. Then the way a message goes, and round again: redeliveries
and receives of other servers may pass between two looks."""

_ORDER_UNDER_LEASE = (*_ORDER, Folder.REMOVE)

_ALREADY_REMOVED = Unsynced((), (Folder.REMOVE,))


def remove(work: Workspace, queue: QueueName, message_id: MessageId) -> Operation[None]:
    """Remove a message wherever it is, also if it is removed already.

    On return it never comes back, not after a power cut either. Takes no lock: the rename decides
    every race. Raises QueueNotFound, MessageNotFound, StoreUnavailable.
    """
    work.require_queue(queue)
    source = yield from once_unlocked(queue, partial(_move, work, queue, message_id))
    if source is not None:
        _forget(work, source, queue, message_id)
        _remove_other_names(work, queue, message_id)
        yield _unsynced(source, queue)
        work.counts.of(queue).removed += 1
        return
    if not work.spool.exists(Folder.REMOVE, file_name(queue, message_id)):
        raise no_message(queue, message_id)
    # The rename may be another request's or server's, and not durable yet.
    yield _ALREADY_REMOVED


def _move(work: Workspace, queue: QueueName, message_id: MessageId) -> Folder | None:
    """The folder that the message was moved out of; None if it is in none."""
    target = file_name(queue, message_id)
    for source, name in _places(queue, message_id):
        if source is Folder.QUEUES:
            work.hold_queue(queue)
        if work.spool.move_aside(source, name, Folder.REMOVE, target):
            return source
    return None


def remove_leased(
    work: Workspace, queue: QueueName, message_id: MessageId, leases: frozenset[int]
) -> Operation[None]:
    """Remove a message if its current lease is one of `leases`; compared and moved under its lock,
    for which it waits BUSY_WAIT_SECONDS. Raises LeaseMismatch and what `remove` raises."""
    patience: Patience | None = None
    move = partial(_move_leased, work, queue, message_id, leases)
    while (source := (yield from once_unlocked(queue, move))) is Lost.BUSY:
        patience = patience or with_message(message_id)
        yield patience.pause()
    if isinstance(source, Lost):
        raise no_message(queue, message_id)
    _forget(work, source, queue, message_id)
    _remove_other_names(work, queue, message_id)
    yield _unsynced(source, queue)
    work.counts.of(queue).removed += source is not Folder.REMOVE


def _move_leased(
    work: Workspace, queue: QueueName, message_id: MessageId, leases: frozenset[int]
) -> Folder | Lost:
    """The folder that the message was moved out of, `remove` if it was there already."""
    work.require_queue(queue)
    target = file_name(queue, message_id)
    for source, name in _places(queue, message_id, _ORDER_UNDER_LEASE):
        if source is Folder.QUEUES:
            work.hold_queue(queue)
        held = hold_in(work.spool, source, name)
        if held is Lost.BUSY:
            return Lost.BUSY
        if isinstance(held, Lost):
            continue
        with held:
            if held.lease not in leases:
                raise LeaseMismatch(
                    f"message {message_id} of queue {queue} does not have that lease: the lease "
                    "ran out and another receiver has the message; do not remove it"
                )
            if source is Folder.REMOVE or work.spool.move_aside(
                source, name, Folder.REMOVE, target
            ):
                return source
    return Lost.GONE


def remove_many(
    work: Workspace,
    queue: QueueName,
    ids: Sequence[MessageId],
    leases: frozenset[int] | None,
) -> Operation[list[MQError | None]]:
    """Remove several messages under one barrier; what is wrong with each, None for those that are
    removed. Raises QueueNotFound, StoreUnavailable."""
    work.require_queue(queue)
    if leases is None:
        removals = [remove(work, queue, each) for each in ids]
    else:
        removals = [remove_leased(work, queue, each, leases) for each in ids]
    outcomes: list[Any] = yield Together(removals)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, MQError):
            raise outcome
    return outcomes


def _places(
    queue: QueueName, message_id: MessageId, order: Sequence[Folder] = _ORDER
) -> Iterator[tuple[Folder, str]]:
    flat, below = file_name(queue, message_id), queue_path(queue, message_id)
    return ((folder, below if folder is Folder.QUEUES else flat) for folder in order)


def _remove_other_names(work: Workspace, queue: QueueName, message_id: MessageId) -> None:
    """Where a move is a link and an unlink, what comes between the two leaves both names: of this
    queue, of its dead letters, or in a batch."""
    spool, target = work.spool, file_name(queue, message_id)
    if work.files.renames_without_replacing:
        return
    for source, name in _places(queue, message_id):
        spool.move_aside(source, name, Folder.REMOVE, target)
    removed = spool.status(Folder.REMOVE, target)
    if removed is None or removed.st_nlink == 1:
        return
    others = [*_places(other_queue(queue), message_id)]
    # A dead letter's first name may be of any queue whose settings name this one.
    suffix = f":{message_id}"
    others += ((Folder.DELAY, each) for each in spool.names(Folder.DELAY) if each.endswith(suffix))
    others += ((Folder.NEW, f"{batch}/{target}") for batch in sealed_batches(spool, queue))
    # It may have been moved here from any queue.
    others += ((Folder.QUEUES, f"{each}/{message_id}") for each in spool.names(Folder.QUEUES))
    for source, name in others:
        if spool.inode(source, name) == removed.st_ino:
            spool.move_aside(source, name, Folder.REMOVE, target)


def _forget(work: Workspace, source: Folder, queue: QueueName, message_id: MessageId) -> None:
    ready = work.ready.get(queue)
    if source is Folder.QUEUES and ready is not None:
        ready.discard(message_id)


def _unsynced(source: Folder, queue: QueueName) -> Unsynced:
    if source is Folder.REMOVE:
        return _ALREADY_REMOVED
    folder = f"{source}/{queue}" if source is Folder.QUEUES else str(source)
    return Unsynced((), (Folder.REMOVE, folder))
