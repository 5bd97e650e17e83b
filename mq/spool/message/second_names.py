"""Messages with two names.

Where a file system lacks rename flags a move is a link and an unlink, and an interruption between
the two leaves both names. No name is unlinked to undo that: after a lost answer, or while another
process does the same, the file would have no name left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from mq.disk.status import AnyStatus
from mq.lifecycle import Folder
from mq.names import (
    DEAD_SUFFIX,
    MessageId,
    QueueName,
    dead_letter_queue,
    file_name,
    parse_file_name,
    queue_path,
)
from mq.spool.spool import Spool


def finish_move(spool: Spool, folder: Folder, name: str, status: AnyStatus) -> bool:
    """Finish a move of a message out of `new` or `spark` that was interrupted, and return whether
    there was one.

    There was one if the message has a name further on its way, from which others may have moved it
    since. Its old name is unlinked then. A name elsewhere, such as that of a backup, says nothing.
    The caller holds the lock of the message or of its set.
    """
    parsed = parse_file_name(name.rpartition("/")[2])
    if status.st_nlink == 1 or parsed is None:
        return False
    queue, message_id = parsed
    later = [*_places(queue, message_id), *_places(other_queue(queue), message_id)]
    if all(spool.inode(*place) != status.st_ino for place in later):
        return False
    spool.unlink(folder, name)
    return True


def removed_with_two_names(spool: Spool, name: str) -> os.stat_result | None:
    """Return the status of a message in `remove`, or None if it has no other name or is reaped."""
    status = spool.status(Folder.REMOVE, name)
    return status if status is not None and status.st_nlink > 1 else None


def other_queue(queue: QueueName) -> QueueName:
    """Return the queue in which a message of `queue` may have a second name: that of its dead
    letters, or that whose dead letters it holds."""
    return dead_letter_queue(queue) or QueueName(queue.removesuffix(DEAD_SUFFIX))


def _places(queue: QueueName, message_id: MessageId) -> Iterator[tuple[Folder, str]]:
    flat, below = file_name(queue, message_id), queue_path(queue, message_id)
    # A receive and a redelivery may pass between two looks.
    yield from ((Folder.QUEUES, below), (Folder.DELAY, flat), (Folder.QUEUES, below))
    yield Folder.REMOVE, flat
