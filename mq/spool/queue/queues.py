"""How a queue begins and ends.

Deleting takes three steps, each one a rename, so that any process can finish a deletion that a
crash cut off:

    1. queues/Q          -> remove/Q:.deleting    from here on the queue is gone; made durable
    2. new/Q:*, delay/Q:* -> remove/      and batches, which are folders: new/.Q:* -> remove/Q:.UUID
       new/BATCH/Q:* -> remove/           of batches for several queues that are sealed
       remove/Q:* -> remove/Q:.deleting/  so that no id of the old queue is found in there
    3. remove/Q:.deleting -> remove/Q:.UUID       now the reaper may have it

While `Q:.deleting` is there no queue Q is made, so a queue made again never sees old messages.
"""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

from mq.config import FOLDER_LOCK_SECONDS
from mq.disk.files import HIDDEN, Files
from mq.errors import InvalidName
from mq.lifecycle import Folder
from mq.names import QueueName, parse_queue_name
from mq.spool.batch_names import is_for_several
from mq.spool.handovers import taken_in
from mq.spool.moves import OpenFolder
from mq.spool.queue.purged import PURGED_SUFFIX
from mq.spool.removed_folders import leave_to_reaper
from mq.spool.sets import OPEN_SUFFIX, members_of_queue, remove_empty_set
from mq.spool.spool import Spool

DELETING_SUFFIX = ":.deleting"
"""`remove/QUEUE:.deleting` is the folder of a queue whose deletion is under way."""


class Made(Enum):
    """The result of making a queue."""

    CREATED = "created"
    EXISTED = "existed"
    BEING_DELETED = "an unfinished deletion comes first"


def make_queue(files: Files, queues_fd: int, queue: QueueName) -> Made:
    """Make the queue's folder, unless a deletion of that name is unfinished.

    `queues_fd` is open at `ROOT/queues`. This is not durable by itself: the caller syncs `queues`.
    It does not wait: it raises BlockingIOError while another process makes or deletes a queue.
    """
    mode = mode_of_queues(queues_fd)
    return name_queue(files, queues_fd, queue, lambda: files.make_folder(queues_fd, queue, mode))


def name_queue(
    files: Files, queues_fd: int, queue: QueueName, take_name: Callable[[], None]
) -> Made:
    """Do what `make_queue` does, with a folder that gets the queue's name by `take_name`."""
    if has_queue(files, queues_fd, queue):
        return Made.EXISTED
    # Without the lock a queue could be made between another server's look for an unfinished
    # deletion and its next step, and lose messages to that deletion.
    with files.locked_folder(queues_fd, "."):
        if has_queue(files, queues_fd, f"../{Folder.REMOVE}/{queue}{DELETING_SUFFIX}"):
            return Made.BEING_DELETED
        try:
            take_name()
        except FileExistsError:
            return Made.EXISTED
    return Made.CREATED


def mode_of_queues(queues_fd: int) -> int:
    """Return the mode with which the folder of a queue is made."""
    return os.fstat(queues_fd).st_mode & 0o777


def has_queue(files: Files, queues_fd: int, queue: str) -> bool:
    try:
        return stat.S_ISDIR(files.status_of(queues_fd, queue).st_mode)
    except FileNotFoundError:
        return False


def begin_deletion(spool: Spool, queue: QueueName) -> bool:
    """Do step 1. Returns False if there is no such queue. The caller syncs `queues` and `remove`.

    Raises FileExistsError while an earlier deletion of that name is unfinished, BlockingIOError
    while another process makes or deletes a queue.
    """
    with spool.files.locked_folder(spool.fd(Folder.QUEUES), "."):
        return spool.move(Folder.QUEUES, queue, Folder.REMOVE, queue + DELETING_SUFFIX)


def finish_deletion(spool: Spool, queue: QueueName) -> None:
    """Do steps 2 and 3, from where they stopped; return at once if there is nothing to finish.

    If there is a queue of that name, the folder was not left by a deletion: a person put it there,
    or an old copy of the root. The reaper may have it, and the queue keeps its messages.

    This is for a worker: it waits up to FOLDER_LOCK_SECONDS for another process that finishes the
    deletion, and then raises BlockingIOError.

    The lock of the `.deleting` folder keeps other processes, which may have finished the deletion
    and made the queue again, from moving messages of the new queue. A publisher that saw the queue
    shares that lock until its message has a name, so the listing below finds it.
    """
    deleting = queue + DELETING_SUFFIX
    try:
        remove = spool.fd(Folder.REMOVE)
        with spool.files.locked_folder(remove, deleting, FOLDER_LOCK_SECONDS) as fd:
            if spool.inode(Folder.REMOVE, deleting) != spool.files.inode(fd):
                return
            if not has_queue(spool.files, spool.fd(Folder.QUEUES), queue):
                _put_away_messages(spool, queue, fd)
            leave_to_reaper(spool, Folder.REMOVE, deleting, queue)
    except FileNotFoundError:
        return


def _put_away_messages(spool: Spool, queue: QueueName, deleting_fd: int) -> None:
    """Put away what there is of a deleted queue. If something cannot be moved, all the rest is
    moved, and the OSError that this raises names it: no queue of that name is made before."""
    failed: OSError | None = None
    for folder in (Folder.NEW, Folder.DELAY, Folder.REMOVE):
        for name in spool.names(folder):
            try:
                _put_away(spool, queue, deleting_fd, folder, name)
            except OSError as error:
                why = f"{folder}/{name} of the deleted queue cannot be moved: {error.strerror}"
                failed = failed or OSError(error.errno, why)
    if failed is not None:
        raise failed


def _put_away(spool: Spool, queue: QueueName, deleting_fd: int, folder: Folder, name: str) -> None:
    is_of_queue = name.startswith(f"{queue}:")
    if folder is not Folder.REMOVE:
        if is_of_queue:
            spool.move_aside(folder, name, Folder.REMOVE, name)
        elif name.startswith(f"{HIDDEN}{queue}:"):
            leave_to_reaper(spool, folder, name, queue)
        elif folder is Folder.NEW and is_for_several(name):
            _put_away_members(spool, queue, name)
    elif name == queue + PURGED_SUFFIX:
        # No id among the purged messages is found again.
        leave_to_reaper(spool, folder, name, queue)
    elif is_of_queue and not name.startswith(f"{queue}:{HIDDEN}"):
        _move_into(spool, deleting_fd, name)


def _put_away_members(spool: Spool, queue: QueueName, batch: str) -> None:
    """Put away the messages of the queue in a published batch for several queues, and what it has
    taken of the queue. Another batch stays: nothing of it is published before its publisher has
    seen that each of its queues is there."""
    taken = taken_in(spool, batch)
    if batch.endswith(OPEN_SUFFIX) and not taken:
        return
    found = members_of_queue(spool, Folder.NEW, batch, queue)
    for name in found:
        spool.move_aside(Folder.NEW, f"{batch}/{name}", Folder.REMOVE, name)
    for name in taken:
        if name.startswith(f"{queue}:"):
            spool.move_aside(Folder.NEW, f"{batch}/{HIDDEN}{name}", Folder.REMOVE, name)
    if found:
        remove_empty_set(spool, Folder.NEW, batch)


def _move_into(spool: Spool, deleting_fd: int, name: str) -> None:
    """Move a removed message into the folder of its queue. The reaper may be faster, and a person
    may have put something of that name into the queue."""
    remove, deleting = spool.opened(Folder.REMOVE), OpenFolder(Folder.REMOVE, deleting_fd)
    with suppress(FileNotFoundError):
        try:
            spool.moves.rename(remove, name, deleting, name)
        except FileExistsError:
            spool.moves.rename(remove, name, deleting, f"{HIDDEN}{uuid.uuid4()}")


def unfinished_deletions(spool: Spool) -> list[QueueName]:
    """Return the queues whose deletion stopped half-way."""
    found = []
    for name in spool.names(Folder.REMOVE):
        if name.endswith(DELETING_SUFFIX):
            try:
                found.append(parse_queue_name(name.removesuffix(DELETING_SUFFIX)))
            except InvalidName:
                continue
    return found
