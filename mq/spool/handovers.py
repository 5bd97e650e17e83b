"""Handovers: batches that take one message away in the same step in which they are published.

    make, fill, sync    as any batch, but new/.-:UUID.open/
    take                delay/QUEUE:ID -> OPEN/.QUEUE:ID     from here on the batch is published
    seal, sync          OPEN -> new/.-:UUID
    roll forward        SEALED/.QUEUE:ID -> remove/QUEUE:ID, and the members as those of any batch

The rename that takes the message decides about everything: before it the message is where it was
and the batch counts for nothing, after it the message is removed and the batch is published. The
name says the latter only later. So an open handover whose publisher is dead is published if it has
the message, and given up if not.
"""

from __future__ import annotations

from mq.disk.files import HIDDEN
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, parse_file_name, queue_path
from mq.spool.batch_names import BatchName, is_handover, new_handover_name
from mq.spool.removed_folders import leave_to_reaper
from mq.spool.sets import OPEN_SUFFIX, seal_set
from mq.spool.spool import Spool


def name_in_handover(name: BatchName, queue: QueueName, message_id: MessageId) -> str:
    """Return the name in `new` of the message that an open handover takes."""
    return f"{name.open}/{HIDDEN}{file_name(queue, message_id)}"


def taken_in(spool: Spool, name: str) -> list[str]:
    """Return the messages that a batch has taken, as `QUEUE:ID`: none, or one of a handover.
    Raises OSError."""
    if not is_handover(name):
        return []
    hidden = [each for each in spool.names_if_any(Folder.NEW, name) if each.startswith(HIDDEN)]
    return [each[1:] for each in hidden if parse_file_name(each[1:]) is not None]


def is_published(spool: Spool, name: str) -> bool:
    """Whether a batch in `new` counts: it is sealed, or a handover that has its message. Raises
    OSError."""
    return not name.endswith(OPEN_SUFFIX) or bool(taken_in(spool, name))


def give_up(spool: Spool, batch: BatchName) -> str | None:
    """Give up an open batch whose publisher is dead or has failed: it goes to the reaper, or is
    gone. A handover that has its message is sealed instead, and this returns its name then.

    The caller holds its lock. On a network file system that may not reach the publisher, which is
    fenced off first: it finds no set of that name to bring the message to. Raises OSError.
    """
    if batch.is_handover and spool.files.is_of_network:
        fenced = new_handover_name()
        try:
            spool.rename_within(Folder.NEW, batch.open, fenced.open)
        except FileNotFoundError:
            return None
        batch = fenced
    if taken_in(spool, batch.open):
        seal_set(spool, Folder.NEW, batch.open, batch.sealed)
        return batch.sealed
    leave_to_reaper(spool, Folder.NEW, batch.open, batch.removed)
    return None


def remove_taken(spool: Spool, name: str, flat: str) -> None:
    """Move the message `flat`, which a sealed handover has taken, to `remove`. Does nothing if it
    is gone from there. Raises OSError."""
    taken = f"{name}/{HIDDEN}{flat}"
    status, parsed = spool.status(Folder.NEW, taken), parse_file_name(flat)
    if status is not None and status.st_nlink > 1 and parsed is not None:
        # It was taken by a link and an unlink, and a crash came between.
        for place in ((Folder.DELAY, flat), (Folder.QUEUES, queue_path(*parsed))):
            if spool.inode(*place) == status.st_ino:
                spool.move_aside(*place, Folder.REMOVE, flat)
    spool.move_aside(Folder.NEW, taken, Folder.REMOVE, flat)
