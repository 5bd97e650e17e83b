"""The way back after a failed barrier: the store is reopened and swept."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from mq.commit.barrier import Barrier, Unsynced
from mq.lifecycle import FIXED_FOLDERS

RECOVERY_BACKOFF_SECONDS = (0.1, 2.0)
"""The first and the longest pause between two tries to reopen a store whose sync failed."""

log = structlog.get_logger(__name__)


class Reopening:
    """Reopens a store again and again, with backoff, until that works or `stop` is called.
    `recover` opens the store and sweeps it, and raises OSError while that does not work."""

    def __init__(self, barrier: Barrier, recover: Callable[[], None]) -> None:
        self._barrier = barrier
        self._recover = recover
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End it. Any thread may call this."""
        self._stopping.set()

    def run(self, refuse_pending: Callable[[], None]) -> bool:
        """Reopen the store, and refuse before each try what has come meanwhile. Returns whether the
        store is open again."""
        pause, longest = RECOVERY_BACKOFF_SECONDS
        while not self._stopping.is_set():
            refuse_pending()
            try:
                self._barrier.reopen()
                self._recover()
                self._barrier.make_durable([Unsynced((), FIXED_FOLDERS)])
            except OSError as error:
                log.error("store not reopened yet", error=str(error))
                self._stopping.wait(pause)
                pause = min(2 * pause, longest)
            else:
                log.warning("store reopened")
                return True
        refuse_pending()
        return False
