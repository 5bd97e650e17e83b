"""Queues that rest: after several errors of the disk in a row with messages of one queue, the other
messages of that queue wait a while, and those of no other queue do."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque

_MOST_ERRORS = 8
"""This many errors in a row concern a queue or the whole disk, not just some files."""


class RestingQueues:
    """Keeps the entries of messages that are due while their queue rests. After each rest it gives
    a few back, those that have waited longest first, and all once a message could be moved."""

    def __init__(self, rest_seconds: float) -> None:
        self._rest_seconds = rest_seconds
        self._errors: Counter[str] = Counter()
        self._ends: dict[str, float] = {}
        self._aside: defaultdict[str, deque[str]] = defaultdict(deque)
        self._back: list[str] = []

    def failed(self, name: str) -> None:
        """Note an error of the disk with the message `QUEUE:ID`."""
        queue = _queue_of(name)
        self._errors[queue] += 1
        if self._errors[queue] == _MOST_ERRORS:
            del self._errors[queue]
            self._ends[queue] = time.monotonic() + self._rest_seconds

    def worked(self, name: str) -> None:
        """Note that a message was moved."""
        queue = _queue_of(name)
        self._errors.pop(queue, None)
        self._back += self._aside.pop(queue, ())

    def put_aside(self, name: str, entry: str) -> bool:
        """Keep the entry of a message if its queue rests. Returns whether it does."""
        queue = _queue_of(name)
        is_resting = queue in self._ends
        if is_resting:
            self._aside[queue].append(entry)
        return is_resting

    def take_back(self) -> list[str]:
        """Return the entries that are to be looked at now."""
        now, back, self._back = time.monotonic(), self._back, []
        self._ends = {queue: end for queue, end in self._ends.items() if end > now}
        for queue in self._aside.keys() - self._ends.keys():
            aside = self._aside[queue]
            back += [aside.popleft() for _ in range(min(len(aside), _MOST_ERRORS))]
            if not aside:
                del self._aside[queue]
        return back

    def forget_entries(self) -> None:
        self._aside.clear()
        self._back.clear()

    def wait_seconds(self) -> float | None:
        """Return how long it is until there are entries to look at, or None if none is kept."""
        if self._back:
            return 0.0
        ends = [self._ends.get(queue, 0.0) for queue in self._aside]
        return max(min(ends) - time.monotonic(), 0.0) if ends else None


def _queue_of(name: str) -> str:
    queue, colon, _ = name.partition(":")
    return queue if colon else ""
