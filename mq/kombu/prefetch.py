"""`Prefetch`: how many messages a channel may have, shared by the queues that it reads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

MOST_UNACKNOWLEDGED = 1000
"""How many messages a channel has at most, even if its prefetch count is 0."""


class Prefetch:
    """The prefetch limit of a channel, with one receiver for each queue.

    A receiver reserves room before it asks the server, so that all of them together never have more
    than the limit. Those that wait are served in the order of arrival. A reservation leaves a share
    to each receiver that has none; if there is less room than queues, they take turns.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._limit = MOST_UNACKNOWLEDGED
        self._used = 0
        self._line: deque[str] = deque()
        self._members: set[str] = set()
        self._reserved: set[str] = set()
        self._fruitful: set[str] = set()

    def limit(self, prefetch_count: int) -> None:
        """Set the limit; 0 means as many as MQ allows at all."""
        with self._changed:
            most = MOST_UNACKNOWLEDGED
            self._limit = min(prefetch_count or most, most)
            self._changed.notify_all()

    def join(self, member: str) -> None:
        with self._changed:
            self._members.add(member)

    def leave(self, member: str) -> None:
        """Note that a receiver reserves no more."""
        with self._changed:
            self._members.discard(member)
            self._fruitful.discard(member)
            self._changed.notify_all()

    def wake(self) -> None:
        """Let those that wait look at `is_stopped` again."""
        with self._changed:
            self._changed.notify_all()

    def reserve(self, member: str, most: int, is_stopped: Callable[[], bool]) -> int:
        """Wait for room. Returns how many messages, up to `most`, `member` may ask for, or 0 once
        it is stopped."""
        with self._changed:
            self._line.append(member)
            self._changed.wait_for(
                lambda: is_stopped() or (self._line[0] == member and self._used < self._limit)
            )
            self._line.remove(member)
            if is_stopped():
                self._changed.notify_all()
                return 0
            without = len(self._members - self._reserved)
            free = self._limit - self._used
            taken = min(-(-free // max(without, 1)), most)
            self._used += taken
            self._reserved.add(member)
            self._changed.notify_all()
            return taken

    def end_reservation(self, member: str, reserved: int, found: int) -> None:
        """Keep room for the messages that were found until they are settled."""
        with self._changed:
            self._reserved.discard(member)
            (self._fruitful.add if found else self._fruitful.discard)(member)
            self._used -= reserved - found
            self._changed.notify_all()

    def free(self, count: int) -> None:
        """Free the room of messages that were settled."""
        with self._changed:
            self._used -= count
            self._changed.notify_all()

    def use(self, count: int) -> None:
        """Take room for messages that were asked for by name, over the limit if need be."""
        with self._changed:
            self._used += count

    def wait_seconds(self, alone: float, among_others: float) -> float:
        """Return how long the next request may wait for a message. Other queues lack the room that
        it reserved, so with others it waits only a little, and not at all while one of them has
        messages."""
        with self._changed:
            if len(self._members) <= 1:
                return alone
            return 0.0 if self._fruitful else min(alone, among_others)
