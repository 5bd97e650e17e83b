"""The rate in messages a second: one number on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time

_MESSAGES_PER_REPORT = 50


class Rate:
    """Counts messages and prints their rate."""

    def __init__(self) -> None:
        self._count = 0
        self._started = time.monotonic()

    def count(self) -> None:
        self._count += 1
        if self._count % _MESSAGES_PER_REPORT:
            return
        now = time.monotonic()
        rate = _MESSAGES_PER_REPORT / max(now - self._started, 1e-9)
        self._started = now
        begin, end = ("\r", "") if sys.stdout.isatty() else ("", "\n")
        print(f"{begin}{self._count} ({rate:.2f}/s)", end=end, flush=True)
