"""A message under two names.

Where a file system lacks rename flags a move is a link and an unlink, and an interruption between
the two leaves both names. No name is unlinked to undo that: after an answer that was lost, or
beside another process that does the same, the file would have none.
"""

from __future__ import annotations

from collections.abc import Iterator

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
from mq.spool.folders import Spool
from mq.spool.status import AnyStatus


def finish_move(spool: Spool, folder: Folder, name: str, status: AnyStatus) -> bool:
    """Whether a message of `new` or `spark` was moved from there before: it has a name further on
    its way, which others may have moved on since. Its old name is unlinked then. A name elsewhere,
    such as that of a backup, says nothing. The caller holds the lock of the message or its set."""
    parsed = parse_file_name(name.rpartition("/")[2])
    if status.st_nlink == 1 or parsed is None:
        return False
    queue, message_id = parsed
    later = [*_places(queue, message_id), *_places(other_queue(queue), message_id)]
    if all(spool.inode(*place) != status.st_ino for place in later):
        return False
    spool.unlink(folder, name)
    return True


def other_queue(queue: QueueName) -> QueueName:
    """Where a message of the queue may have a second name: its dead letters, or whose they are."""
    return dead_letter_queue(queue) or QueueName(queue.removesuffix(DEAD_SUFFIX))


def _places(queue: QueueName, message_id: MessageId) -> Iterator[tuple[Folder, str]]:
    flat, below = file_name(queue, message_id), queue_path(queue, message_id)
    # A receive and a redelivery may pass between two looks.
    yield from ((Folder.QUEUES, below), (Folder.DELAY, flat), (Folder.QUEUES, below))
    yield Folder.REMOVE, flat
