"""Turn: publishers give their messages the final name one after the other, each with a greater time
than the last.

The last time is kept in an attribute of the folder. From there a publisher learns it when it
begins, and when messages were published, received and deleted while it slept.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mq.config import FOLDER_LOCK_SECONDS
from mq.disk.files import Files
from vsqs.names import parse_id

_PAUSE_SECONDS = 0.0002
_CANNOT_KEEP = {errno.EOPNOTSUPP, errno.EPERM, errno.EACCES}
"""The folder takes no attributes from this process: it lacks them, belongs to another user, or has
the sticky bit."""


class Turn:
    """The turn of all publishers in one folder. `unit` is in the attribute's name, because a time
    in another unit says nothing."""

    def __init__(self, files: Files, folder_fd: int, unit: str) -> None:
        self._files = files
        self._fd = folder_fd
        self._attribute = f"user.vsqs.newest_{unit}"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the turn. A publisher that was stopped in its turn holds up each of the others for
        FOLDER_LOCK_SECONDS, no longer. Where there are no locks, messages published at the same
        time may come in another order."""
        try:
            is_locked = self._wait()
        except OSError:
            is_locked = False
        try:
            yield
        finally:
            if is_locked:
                self._files.unlock(self._fd)

    def newest(self) -> int:
        """Return the time that was given last, or -1 if it is unknown."""
        value = self._files.attribute(self._fd, self._attribute) or b""
        created = parse_id(value.decode("ascii", "replace"))
        return -1 if created is None else created

    def give(self, created: int) -> None:
        """Note a time that is given. Call it before the name exists: a crash in between leaves a
        time without a message, which does no harm."""
        try:
            self._files.set_attribute(self._fd, self._attribute, str(created).encode())
        except OSError as error:
            if error.errno not in _CANNOT_KEEP:
                raise

    def _wait(self) -> bool:
        """Wait for the turn. Returns False if its holder has done nothing for FOLDER_LOCK_SECONDS.
        While others have their turns it is worth waiting, however many they are."""
        seen, deadline = self.newest(), time.monotonic() + FOLDER_LOCK_SECONDS
        while not self._files.lock(self._fd):
            now = time.monotonic()
            if (newest := self.newest()) != seen:
                seen, deadline = newest, now + FOLDER_LOCK_SECONDS
            elif now > deadline:
                return False
            time.sleep(_PAUSE_SECONDS)
        return True
