"""A message of `new` that a dead process has left, written again.

Its data may be in memory alone: a process was killed before it synced it, or between a sync that
failed and the unlink that follows. After a failed sync the kernel takes such pages for clean, so
every further sync of that file succeeds and makes nothing durable. A sync of a new file does.

    write       new/.HEX            the same data, attributes and stamp; locked, and durable
    exchange    .HEX <-> QUEUE:ID   at one instant, so the message is never without a file
    sync        new                 the message is on stable media
    unlink      new/.HEX            that is the old file now

A crash leaves one of the two files as `.HEX`, which a sweep discards as an upload.
"""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack, suppress

from mq.config import CHUNK_BYTES
from mq.disk.files import HIDDEN, LACKS_RENAME_FLAGS
from mq.lifecycle import Folder
from mq.spool.disk_errors import NO_ROOM
from mq.spool.message.held import Held
from mq.spool.spool import Spool

_OF_MESSAGES = "user."
"""The prefix of attributes that are copied: others belong to the system."""


class FreshCopy:
    """A copy of a message that is held. It is locked until it is closed."""

    def __init__(self, spool: Spool, message: Held) -> None:
        self._spool, self._message = spool, message
        self._fd = spool.files.open_unnamed(spool.fd(Folder.NEW), spool.file_mode)
        self._name = f"{HIDDEN}{secrets.token_hex(8)}"
        self._has_name = False

    def close(self) -> None:
        """Unlink what has the hidden name. If that fails, a sweep does it."""
        if self._has_name:
            with suppress(OSError):
                self._spool.unlink(Folder.NEW, self._name)
        self._spool.files.close(self._fd)

    def write(self) -> None:
        """Write the copy under its hidden name. Raises OSError."""
        files, source, fd = self._spool.files, self._message, self._fd
        files.lock(fd)
        offset = 0
        while chunk := files.read(source.fd, CHUNK_BYTES, offset):
            files.write(fd, chunk)
            offset += len(chunk)
        for name in os.listxattr(source.fd):
            value = files.attribute(source.fd, name) if name.startswith(_OF_MESSAGES) else None
            if value is not None:
                files.set_attribute(fd, name, value)
        if source.status.st_mtime_ns > source.status.st_ctime_ns:
            files.stamp(fd, source.status.st_mtime_ns)
        self._spool.link(fd, Folder.NEW, self._name, Folder.NEW)
        self._has_name = True

    def persist(self) -> None:
        """Make the copy durable. Raises OSError."""
        self._spool.files.sync(self._fd)

    def take_place(self) -> None:
        """Take the message's name. The caller shares the lock of the message's queue, and has seen
        since that the name leads to the message: no deletion has moved it away. Raises OSError."""
        spool, name = self._spool, self._message.name
        new = spool.opened(Folder.NEW)
        try:
            spool.moves.exchange(new, self._name, new, name)
        except OSError as error:
            if error.errno not in LACKS_RENAME_FLAGS:
                raise
        else:
            spool.files.sync(new.fd)


def copy_message(spool: Spool, message: Held) -> FreshCopy | None:
    """Return a durable copy of a whole message in `new`, to take its place.

    Returns None if the message must stay as it is: where there is no room for another file, on
    network file systems and those that cannot exchange two names, and without a seal, because a
    person may have put it there. Raises OSError.
    """
    files = spool.files
    if message.seal is None or files.is_of_network or not files.renames_without_replacing:
        return None
    with ExitStack() as undo:
        try:
            copy = FreshCopy(spool, message)
            undo.callback(copy.close)
            copy.write()
        except OSError as error:
            if error.errno in NO_ROOM:
                return None
            raise
        copy.persist()
        undo.pop_all()
        return copy
