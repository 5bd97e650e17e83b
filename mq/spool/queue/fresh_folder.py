"""A fresh folder in place of a queue's: one rename takes all of its messages away.

The fresh one must be like the queue's in everything that can be seen: owner, group, mode, access
lists and other attributes, the settings, and when the queue was made. Where that is not possible,
or there is more in the queue's folder than messages and settings, there is no exchange.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable

from mq.config import PURGE_LOCK_SECONDS
from mq.disk.files import LACKS_RENAME_FLAGS
from mq.lifecycle import Folder
from mq.names import QueueName, is_message_id
from mq.spool.file_system import file_system_kind, is_of_network
from mq.spool.moves import OpenFolder
from mq.spool.queue.queue_birth import MADE_ATTRIBUTE, made_attribute
from mq.spool.queue.settings_file import SETTINGS_FILE
from mq.spool.spool import Spool

_CANNOT = LACKS_RENAME_FLAGS | {
    errno.EACCES,  # the folder is another user's
    errno.EPERM,  # or may not be moved or linked
    errno.EBUSY,  # it is a mount point
    errno.EXDEV,
    errno.EMLINK,
    errno.ENOSPC,
    errno.EDQUOT,
}
"""Renames of one message after the other may work nevertheless."""


def strays_among(names: Iterable[str]) -> list[str]:
    """What is in a queue's folder besides its messages and settings."""
    return [name for name in names if not is_message_id(name) and name != SETTINGS_FILE]


def bring_back(spool: Spool, queue: QueueName, taken_fd: int, name: str) -> None:
    """Move a file that is not a message, and came into the folder just before it was taken, to the
    folder that the queue has now. Raises FileExistsError if that has such a name, OSError."""
    with spool.queues.shared(queue, PURGE_LOCK_SECONDS) as opened:
        taken, present = (OpenFolder(Folder.QUEUES, fd) for fd in (taken_fd, opened.fd))
        spool.moves.rename(taken, name, present, name)


def put_in_place(spool: Spool, queue: QueueName, queue_fd: int, fresh: str, fresh_fd: int) -> bool:
    """Exchange the folder of a queue with an empty one, `fresh` below `remove`. Returns False if
    that is not possible: then only the fresh folder has changed.

    The caller holds the locks of both folders and of the settings. A crash leaves the queue with
    one folder or the other. Raises FileNotFoundError if the queue is not there any more, OSError.
    """
    if not spool.files.renames_without_replacing or is_of_network(file_system_kind(spool.root)):
        return False
    try:
        if not _make_alike(spool, queue_fd, fresh_fd):
            return False
        if not _take_settings(spool, queue_fd, fresh_fd):
            return False
        removing = OpenFolder(Folder.REMOVE, spool.fd(Folder.REMOVE))
        spool.moves.exchange(spool.opened(Folder.QUEUES), queue, removing, fresh)
    except OSError as error:
        if error.errno in _CANNOT:
            return False
        raise
    return True


def _make_alike(spool: Spool, queue_fd: int, fresh_fd: int) -> bool:
    """Return whether the fresh folder is like the queue's now. Raises OSError."""
    files, made = spool.files, made_attribute(spool, queue_fd)
    if made is None or not spool.has_seals:
        return False
    wanted = _attributes(queue_fd) | {MADE_ATTRIBUTE: made}
    present = _attributes(fresh_fd)
    for name, value in wanted.items():
        if present.get(name) != value:
            files.set_attribute(fresh_fd, name, value)
    status = os.fstat(queue_fd)
    if os.fstat(fresh_fd).st_mode != status.st_mode:
        files.set_mode(fresh_fd, ".", stat.S_IMODE(status.st_mode))
    return _attributes(fresh_fd) == wanted and _access(os.fstat(fresh_fd)) == _access(status)


def _attributes(fd: int) -> dict[str, bytes]:
    return {name: os.getxattr(fd, name) for name in os.listxattr(fd)}


def _access(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_uid, status.st_gid, status.st_mode


def _take_settings(spool: Spool, queue_fd: int, fresh_fd: int) -> bool:
    """Give the settings of the queue a second name in the fresh folder. The first one goes with the
    messages. Returns False if MQ would not read them as settings."""
    files = spool.files
    try:
        fd = files.open_to_look(queue_fd, SETTINGS_FILE)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return False
        raise
    try:
        status = os.fstat(fd)
        is_ours = stat.S_ISREG(status.st_mode) and status.st_uid in files.owners
        if is_ours:
            files.link(fd, fresh_fd, SETTINGS_FILE)
    finally:
        files.close(fd)
    return is_ours
