"""Remove: rename to `remove`, from wherever the message is."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation
from mq.disk.calls import CLOSE, Outcome
from mq.disk.file_work import FileCalls, FileWork
from mq.disk.status import INODE, MODE, OWNER
from mq.errors import LeaseMismatch
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.spool.message.held import Held, Lost
from mq.spool.message.opening import held_by, holding, move_held, open_held
from mq.spool.message.seal import lease_in
from mq.spool.message.second_names import other_queue, removed_with_two_names
from mq.spool.queue.finder import sealed_batches
from mq.store.context import Workspace, no_message
from mq.store.holding import work_once_unlocked
from mq.store.patience import Patience, with_message

_ORDER = (Folder.DELAY, Folder.NEW, *(Folder.QUEUES, Folder.DELAY) * 3, Folder.QUEUES)
"""Leased messages are the common case. Then comes the way a message goes, several times:
redeliveries and receives of other servers may pass between two looks."""

_ORDER_UNDER_LEASE = (*_ORDER, Folder.REMOVE)

_DELAY, _REMOVE = Folder.DELAY, Folder.REMOVE

_REMOVED_FROM_DELAY = Unsynced((), (_REMOVE,), implied=(_DELAY,))
_ALREADY_REMOVED = Unsynced((), (_REMOVE,))


def removal(
    work: Workspace, queue: QueueName, message_id: MessageId, leases: frozenset[int] | None
) -> Operation[None]:
    """Return the operation that removes a message; with `leases`, only under one of them."""
    if leases is None:
        return remove(work, queue, message_id)
    return remove_leased(work, queue, message_id, leases)


def remove(work: Workspace, queue: QueueName, message_id: MessageId) -> Operation[None]:
    """Remove a message wherever it is, even if it is removed already.

    On return it never comes back, not even after a power cut. Takes no lock: the rename decides
    every race. Raises QueueNotFound, MessageNotFound, StoreUnavailable.
    """
    source = yield from work_once_unlocked(queue, partial(_move, work, queue, message_id))
    yield unsynced_removal(source, queue)
    work.counts.of(queue).removed += source is not _REMOVE


def remove_leased(
    work: Workspace, queue: QueueName, message_id: MessageId, leases: frozenset[int]
) -> Operation[None]:
    """Remove a message if its current lease is one of `leases`. It is compared and moved under its
    lock, for which this waits BUSY_WAIT_SECONDS. Raises LeaseMismatch and what `remove` raises."""
    patience: Patience | None = None
    move = partial(move_leased, work, queue, message_id, leases)
    while (source := (yield from work_once_unlocked(queue, move))) is None:
        patience = patience or with_message(message_id)
        yield patience.pause()
    yield unsynced_removal(source, queue)
    work.counts.of(queue).removed += source is not Folder.REMOVE


def _move(work: Workspace, queue: QueueName, message_id: MessageId) -> FileWork[Folder]:
    """Move a message to `remove`. Returns the folder that it was moved out of, or `remove` if it
    was there already: the rename may be that of another request or server, and not durable yet.
    Raises QueueNotFound, MessageNotFound, OSError."""
    work.require_queue(queue)
    target, spool = file_name(queue, message_id), work.spool
    move = spool.rename_call(_DELAY, spool.fd(_DELAY), target, _REMOVE, target)
    _, code = yield FileCalls(work.files, (move,))
    return move_on(work, queue, message_id, code)


def move_on(work: Workspace, queue: QueueName, message_id: MessageId, code: int) -> Folder:
    """Do what `_move` does after the rename from `delay`, of which `code` is the errno, or 0."""
    if code == 0:
        _remove_other_names(work, queue, message_id)
        return _DELAY
    target = file_name(queue, message_id)
    if code not in (errno.ENOENT, errno.EEXIST):
        raise OSError(code, os.strerror(code), target)
    for source, name in islice(_places(queue, message_id), code == errno.ENOENT, None):
        if source is Folder.QUEUES:
            work.hold_queue(queue)
        if work.spool.move_aside(source, name, Folder.REMOVE, target):
            work.ready.discard(queue, message_id)
            _remove_other_names(work, queue, message_id)
            return source
    if work.spool.exists(Folder.REMOVE, target):
        return Folder.REMOVE
    for batch in sealed_batches(work.spool, queue):
        if work.spool.move_aside(Folder.NEW, f"{batch}/{target}", Folder.REMOVE, target):
            return Folder.NEW
    raise no_message(queue, message_id)


def move_leased(
    work: Workspace, queue: QueueName, message_id: MessageId, leases: frozenset[int]
) -> FileWork[Folder | None]:
    """Move a message to `remove` under its lease. Returns what `_move` returns, or None if another
    process holds the lock. Raises LeaseMismatch too."""
    work.require_queue(queue)
    name, spool = file_name(queue, message_id), work.spool
    delay_fd = spool.fd(_DELAY)
    outcome = yield FileCalls(work.files, holding(delay_fd, name))
    if not _is_usual(work, outcome, leases):
        found = held_by(spool, _DELAY, name, outcome)
        return (yield from _move_unusual(work, queue, message_id, leases, found))
    fd, is_open = outcome[0][0], True
    try:
        move = spool.rename_call(_DELAY, delay_fd, name, _REMOVE, name)
        moved, code = yield FileCalls(work.files, (move, (CLOSE, fd)))
        is_open = not moved
        is_moved = not is_open or _move_beside(work, _DELAY, name, name, code)
    finally:
        if is_open:
            work.files.close(fd)
    if not is_moved:
        return (yield from _move_unusual(work, queue, message_id, leases, Lost.GONE))
    _remove_other_names(work, queue, message_id)
    return _DELAY


def _is_usual(work: Workspace, outcome: Outcome, leases: frozenset[int]) -> bool:
    """Return whether what is in `delay` is a message with a seal and one of these leases. The way
    of all else, `_move_unusual`, comes to the same for it in more time. A test compares them."""
    results, code = outcome
    if code:
        return False
    _, _, status, named, seal = results
    return (
        lease_in(seal) in leases
        and named[INODE] == status[INODE]
        and stat.S_ISREG(status[MODE])
        and status[OWNER] in work.files.owners
    )


def _move_unusual(
    work: Workspace,
    queue: QueueName,
    message_id: MessageId,
    leases: frozenset[int],
    found: Held | Lost | None,
) -> FileWork[Folder | None]:
    """Do what `move_leased` does, wherever the message is. `found` is what is in `delay`, where it
    is looked for first."""
    target = file_name(queue, message_id)
    for source, name in _places(queue, message_id, _ORDER_UNDER_LEASE):
        if source is Folder.QUEUES:
            work.hold_queue(queue)
        held = found or (yield from open_held(work.spool, source, name))
        found = None
        if held is Lost.BUSY:
            return None
        if isinstance(held, Lost):
            continue
        with held:
            if held.lease not in leases:
                raise LeaseMismatch(
                    f"message {message_id} of queue {queue} does not have that lease: the lease "
                    "ran out and another receiver has the message; do not remove it"
                )
            if source is Folder.REMOVE:
                return source
            if (yield from _move_held(work, source, held, target)):
                work.ready.discard(queue, message_id)
                _remove_other_names(work, queue, message_id)
                return source
    raise no_message(queue, message_id)


def _move_held(work: Workspace, source: Folder, held: Held, target: str) -> FileWork[bool]:
    """Move a held message. Returns False if it is gone from there."""
    try:
        return (yield from move_held(work.spool, source, held, _REMOVE, target))
    except OSError as error:
        return _move_beside(work, source, held.name, target, error.errno or errno.EIO)


def _move_beside(work: Workspace, source: Folder, name: str, target: str, code: int) -> bool:
    """Go on after a move that failed with `code`: if `remove` has another file of that name, move
    the message there under a name of its own. Returns False if it is gone."""
    if code == errno.EEXIST:
        return work.spool.move_aside(source, name, Folder.REMOVE, target) is not None
    if code != errno.ENOENT:
        raise OSError(code, os.strerror(code), target)
    return False


def _places(
    queue: QueueName, message_id: MessageId, order: Sequence[Folder] = _ORDER
) -> Iterator[tuple[Folder, str]]:
    flat, below = file_name(queue, message_id), queue_path(queue, message_id)
    return ((folder, below if folder is Folder.QUEUES else flat) for folder in order)


def has_one_name(work: Workspace) -> bool:
    """Return whether every message has one name, because no move is a link and an unlink."""
    return work.files.renames_without_replacing


def _remove_other_names(work: Workspace, queue: QueueName, message_id: MessageId) -> None:
    """Remove the other names of a message. Where a move is a link and an unlink, an interruption
    leaves both names: in this queue, in its dead letters, or in a batch. Over a network no move is
    that, and one look at the number of names is enough."""
    if has_one_name(work):
        return
    spool, target = work.spool, file_name(queue, message_id)
    if work.files.is_of_network and removed_with_two_names(spool, target) is None:
        return
    for source, name in _places(queue, message_id):
        spool.move_aside(source, name, Folder.REMOVE, target)
    if (removed := removed_with_two_names(spool, target)) is None:
        return
    others = [*_places(other_queue(queue), message_id)]
    # The first name of a dead letter may be that of any queue whose settings name this one.
    suffix = f":{message_id}"
    others += ((Folder.DELAY, each) for each in spool.names(Folder.DELAY) if each.endswith(suffix))
    others += ((Folder.NEW, f"{batch}/{target}") for batch in sealed_batches(spool, queue))
    # It may have been moved here from any queue.
    others += ((Folder.QUEUES, f"{each}/{message_id}") for each in spool.names(Folder.QUEUES))
    for source, name in others:
        if spool.inode(source, name) == removed.st_ino:
            spool.move_aside(source, name, Folder.REMOVE, target)


def unsynced_removal(source: Folder, queue: QueueName) -> Unsynced:
    if source is _DELAY:
        return _REMOVED_FROM_DELAY
    if source is _REMOVE:
        return _ALREADY_REMOVED
    folder = f"{source}/{queue}" if source is Folder.QUEUES else str(source)
    return Unsynced((), (_REMOVE,), implied=(folder,))
