"""`Prefetch`: how many messages a channel may have."""

from __future__ import annotations

import threading
from collections.abc import Callable

MOST_UNACKNOWLEDGED = 1000
"""How many messages a channel has at most, even if its prefetch count is 0."""


class Prefetch:
    """The prefetch limit of a channel, and how much of it is used."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._limit = MOST_UNACKNOWLEDGED
        self._used = 0

    def limit(self, prefetch_count: int) -> None:
        """Set the limit; 0 means as many as MQ allows at all."""
        with self._changed:
            most = MOST_UNACKNOWLEDGED
            self._limit = min(prefetch_count or most, most)
            self._changed.notify_all()

    def wake(self) -> None:
        """Let those that wait look at `is_over` again."""
        with self._changed:
            self._changed.notify_all()

    def wait_for_room(self, is_over: Callable[[], bool]) -> int:
        """Wait until there is room. Returns for how many messages, or 0 once it `is_over`."""
        with self._changed:
            self._changed.wait_for(lambda: is_over() or self._used < self._limit)
            return 0 if is_over() else self._limit - self._used

    def use(self, count: int) -> None:
        """Take room for messages that have come, over the limit if need be."""
        with self._changed:
            self._used += count

    def free(self, count: int) -> None:
        """Free the room of messages that were settled."""
        with self._changed:
            self._used -= count
            self._changed.notify_all()
