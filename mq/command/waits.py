"""A line in the log when a process waits for a disk or a file server before it can work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

SLOW_SECONDS = 5.0

log = structlog.get_logger(__name__)


@contextmanager
def telling_of_a_wait(folder: Path, waits_for: str) -> Iterator[None]:
    """Log that `folder` is not open yet, and what the block waits for, if that takes longer than
    SLOW_SECONDS. The block may hang in a system call. Afterwards no thread is left."""
    timer = threading.Timer(SLOW_SECONDS, _tell, (folder, waits_for))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _tell(folder: Path, waits_for: str) -> None:
    log.warning("not open yet", folder=str(folder), waits_for=waits_for)
