"""One process has all FIFO queues of a root: a lock of one byte of the root's file `format`.

The kernel releases it with the process. Until then every other gateway refuses FIFO queues.

A file server may release it earlier, and another process may take it meanwhile and end. So each
owner writes a token of its own beside the lock: one that finds another token there has lost the
FIFO queues in between.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from mq.disk.files import Files
from mq.errors import StoreUnavailable
from mq.spool.root_format import FORMAT_FILE
from mq.spool.trouble import is_at
from mq.store.shared_state import Workspace

_OFFSET = 1 << 62
"""Beyond the bytes that are locks of names (`mq.disk.byte_locks.offset_of`), and before those that
servers reserve messages by (`mq.store.reservations`)."""

_TOKEN = "user.mq.fifo-owner"
"""The extended attribute of `format` that has the token of the last owner."""


class Ownership:
    """Used by the committer alone."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self._files: Files | None = None
        self._token = b""

    def require(self, work: Workspace) -> bool:
        """Take the lock unless this process has had it since it took it, and return whether it was
        taken just now. Raises StoreUnavailable if another process has it, and OSError."""
        path = work.spool.root / FORMAT_FILE
        if self._fd is not None and _has_lock(work, self._fd, path, self._token):
            return False
        self.close()
        fd = work.files.open_to_lock(str(path))
        try:
            if work.files.lock_byte(fd, _OFFSET):
                self._token = _write_token(work, fd)
                self._fd, self._files = fd, work.files
                return True
        finally:
            if self._fd is None:
                work.files.close(fd)
        raise StoreUnavailable(
            "another mq-sqs has the FIFO queues of this root, and one process has all of them; "
            "send this to that one, or try again once it has ended"
        )

    def close(self) -> None:
        """Let another process have them, as the end of this one does."""
        if self._fd is not None and self._files is not None:
            self._files.close(self._fd)
        self._fd = None


def _write_token(work: Workspace, fd: int) -> bytes:
    """Write a new token, and return it. Where there are no extended attributes, FIFO queues have no
    messages to forget."""
    token = uuid.uuid4().bytes
    if work.spool.has_seals:
        work.files.set_attribute(fd, _TOKEN, token)
    return token


def _has_lock(work: Workspace, fd: int, path: Path, token: bytes) -> bool:
    """Return whether a process that has taken the lock on `fd`, and written the token then, has had
    it ever since."""
    if not is_at(fd, path) and os.path.lexists(path):
        return False  # The file was written again, and others lock the new one.
    if not work.files.is_of_network:
        return True
    try:
        # A file server ends the locks of a host that is cut off, and tells nobody.
        is_locked = work.files.lock_byte(fd, _OFFSET)
        return is_locked and work.files.attribute(fd, _TOKEN) in (token, None)
    except OSError:
        return False
