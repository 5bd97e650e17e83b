"""One process has all FIFO queues of a root: a lock of one byte of the root's file `format`.

The kernel releases it with the process. Until then every other gateway refuses FIFO queues.
"""

from __future__ import annotations

import os
from pathlib import Path

from mq.disk.files import Files
from mq.errors import StoreUnavailable
from mq.spool.root_format import FORMAT_FILE
from mq.spool.trouble import is_at
from mq.store.shared_state import Workspace

_OFFSET = 1 << 62
"""Beyond the bytes that are locks of ids (`mq.store.publishing.twins`)."""


class Ownership:
    """Used by the committer alone."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self._files: Files | None = None

    def require(self, work: Workspace) -> bool:
        """Take the lock unless this process has it, and return whether it was taken just now.
        Raises StoreUnavailable if another process has it, and OSError."""
        path = work.spool.root / FORMAT_FILE
        if self._fd is not None and _has_lock(work, self._fd, path):
            return False
        self.close()
        fd = work.files.open_to_lock(str(path))
        is_taken = False
        try:
            is_taken = work.files.lock_byte(fd, _OFFSET)
        finally:
            if not is_taken:
                work.files.close(fd)
        if is_taken:
            self._fd, self._files = fd, work.files
            return True
        raise StoreUnavailable(
            "another mq-sqs has the FIFO queues of this root, and one process has all of them; "
            "send this to that one, or try again once it has ended"
        )

    def close(self) -> None:
        """Let another process have them, as the end of this one does."""
        if self._fd is not None and self._files is not None:
            self._files.close(self._fd)
        self._fd = None


def _has_lock(work: Workspace, fd: int, path: Path) -> bool:
    """Return whether a process that has taken the lock on `fd` still has it."""
    if not is_at(fd, path) and os.path.lexists(path):
        return False  # The file was written again, and others lock the new one.
    if not work.files.is_of_network:
        return True
    try:
        # A file server ends the locks of a host that is cut off, and tells nobody.
        return work.files.lock_byte(fd, _OFFSET)
    except OSError:
        return False
