"""Remove: rename to `remove`, from wherever the message is."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from functools import partial
from itertools import islice

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation
from mq.disk.file_work import FileCalls, FileWork
from mq.errors import MessageNotFound, QueueNotFound
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.spool.finder import published_batches
from mq.spool.message.second_names import other_queue, removed_with_two_names
from mq.store.holding import work_once_unlocked
from mq.store.shared_state import Workspace, no_message, not_there

ORDER = (Folder.DELAY, Folder.NEW, *(Folder.QUEUES, Folder.DELAY) * 3, Folder.QUEUES)
"""Leased messages are the common case. Then come the places along a message's way, several times:
redeliveries and receives of other servers may pass between two looks."""

ABSENT = (MessageNotFound, QueueNotFound)
"""What is raised for a message that is not there, and for a client means that it is gone."""

_DELAY, _REMOVE = Folder.DELAY, Folder.REMOVE

_REMOVED_FROM_DELAY = Unsynced((), (_REMOVE,), implied=(_DELAY,))
_EVERYTHING = Unsynced((), (), has_closed_files=True)


def remove(work: Workspace, queue: QueueName, message_id: MessageId) -> Operation[None]:
    """Remove a message wherever it is, even if it is removed already.

    On return it never comes back, not even after a power cut; nor if this raises QueueNotFound or
    MessageNotFound: the sync of a purge or deletion that took it may not be over. Takes no lock:
    the rename decides every race. Raises StoreUnavailable too.
    """
    try:
        source = yield from work_once_unlocked(queue, partial(_move, work, queue, message_id))
    except ABSENT:
        yield unsynced_absence(queue)
        raise
    yield unsynced_removal(work, source, queue)
    work.counts.of(queue).removed += source is not _REMOVE


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
        remove_other_names(work, queue, message_id)
        return _DELAY
    target = file_name(queue, message_id)
    if code not in (errno.ENOENT, errno.EEXIST):
        raise OSError(code, os.strerror(code), target)
    for source, name in islice(places(queue, message_id), code == errno.ENOENT, None):
        if source is Folder.QUEUES:
            work.hold_queue(queue)
        if work.spool.move_aside(source, name, Folder.REMOVE, target):
            work.ready.discard(queue, message_id)
            remove_other_names(work, queue, message_id)
            return source
        for batch in published_batches(work.spool, queue) if source is Folder.NEW else ():
            if work.spool.move_aside(source, f"{batch}/{target}", Folder.REMOVE, target):
                remove_other_names(work, queue, message_id)
                return source
    if work.spool.exists(Folder.REMOVE, target):
        return Folder.REMOVE
    raise not_there(work, no_message(queue, message_id))


def places(queue: QueueName, message_id: MessageId) -> Iterator[tuple[Folder, str]]:
    flat, below = file_name(queue, message_id), queue_path(queue, message_id)
    return ((folder, below if folder is Folder.QUEUES else flat) for folder in ORDER)


def has_one_name(work: Workspace) -> bool:
    """Return whether every message has one name, because no move is a link and an unlink."""
    return work.files.renames_without_replacing


def remove_other_names(
    work: Workspace, queue: QueueName, message_id: MessageId, inode: int | None = None
) -> None:
    """Remove the other names of a message, which is the file `inode`, or any of that id. Where a
    move is a link and an unlink, an interruption leaves both names: in this queue, in its dead
    letters, or in a batch. On a network file system no move is made that way, and one look at the
    number of names is enough."""
    if has_one_name(work):
        return
    spool, target = work.spool, file_name(queue, message_id)
    if work.files.is_of_network and removed_with_two_names(spool, target) is None:
        return
    for source, name in places(queue, message_id):
        # After a removal under a lease another message may have the id by now.
        if inode is None or spool.inode(source, name) == inode:
            spool.move_aside(source, name, Folder.REMOVE, target)
    if (removed := removed_with_two_names(spool, target)) is None:
        return
    others = [*places(other_queue(queue), message_id)]
    # The first name of a dead letter may be that of any queue whose settings name this one.
    suffix = f":{message_id}"
    others += ((Folder.DELAY, each) for each in spool.names(Folder.DELAY) if each.endswith(suffix))
    others += ((Folder.NEW, f"{batch}/{target}") for batch in published_batches(spool, queue))
    # It may have been moved here from any queue.
    others += ((Folder.QUEUES, f"{each}/{message_id}") for each in spool.names(Folder.QUEUES))
    for source, name in others:
        if spool.inode(source, name) == removed.st_ino:
            spool.move_aside(source, name, Folder.REMOVE, target)


def unsynced_removal(work: Workspace, source: Folder, queue: QueueName) -> Unsynced:
    if not (has_one_name(work) or work.files.is_of_network):
        return _EVERYTHING  # Its other names were taken out of any folder.
    if source is _DELAY:
        return _REMOVED_FROM_DELAY
    below = f"{Folder.QUEUES}/{queue}"
    if source is _REMOVE:
        # Where it came from knows only the request that moved it, whose sync may not be over.
        return Unsynced((), (_REMOVE,), implied=(_DELAY, below, Folder.NEW))
    return Unsynced((), (_REMOVE,), implied=(below if source is Folder.QUEUES else source,))


def unsynced_absence(queue: QueueName) -> Unsynced:
    """Return what a purge or a deletion that took a message may not have synced yet: the folders
    that it took from."""
    taken_from = _DELAY, Folder.QUEUES, f"{Folder.QUEUES}/{queue}"
    return Unsynced((), taken_from, implied=(_REMOVE,))
