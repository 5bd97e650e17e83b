"""When a queue was made: at the birth of its folder, unless a purge has put another folder there,
which says when in an attribute. What was published or claimed before that time belongs to an older
queue of the name, which was deleted.
"""

from __future__ import annotations

from contextlib import suppress

from mq.disk.libc import birth_ns
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.spool import Spool

MADE_ATTRIBUTE = "user.mq.made"
"""The attribute of a queue's folder that says when the queue was made, in ns since 1970, as decimal
digits."""

_MAX_DIGITS = 20
"""More than any time has. Python reads no number of thousands of digits."""


def queue_made_ns(spool: Spool, queue: QueueName) -> int | None:
    """Return the time in ns since 1970; None if there is no such queue, or the file system does
    not know."""
    path = spool.path(Folder.QUEUES, queue)
    with suppress(FileNotFoundError, NotADirectoryError):
        value = spool.files.attribute(path, MADE_ATTRIBUTE)
        if value is not None and value.isdigit() and len(value) <= _MAX_DIGITS:
            return int(value)
    return birth_ns(path)


def made_attribute(spool: Spool, folder_fd: int) -> bytes | None:
    """Return the value of the attribute for a folder that takes the place of this one, or None if
    the time is unknown."""
    value = spool.files.attribute(folder_fd, MADE_ATTRIBUTE)
    if value is not None:
        return value
    made_ns = birth_ns(f"/proc/self/fd/{folder_fd}/.")
    return None if made_ns is None else b"%d" % made_ns
