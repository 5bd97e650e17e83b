"""Ids for messages that a client publishes: UUIDs of version 7, by the server's clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from mq.client.forking import start_anew_in_children
from mq.config import SECOND_NS
from mq.ids import MessageIds
from mq.names import MessageId

CLOCK_SKEW_SECONDS = 2.0
"""If the clocks differ by more, the ids that a client makes follow the server's clock."""

_SKEW_NS = int(CLOCK_SKEW_SECONDS * SECOND_NS)


class OwnIds:
    """Strictly increasing ids, for any number of threads, whatever clocks do.

    Where the server has no seals, the time in an id is its message's place in the queue, so a
    machine whose clock is wrong would put its messages before or after those of all others. Once an
    answer shows that, ids follow the server's clock; if that means going back, they go on from the
    last one until that clock has caught up.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._clock_ns = clock_ns
        self._offset_ns = 0
        self._last_date: str | None = None
        self._last: MessageId | None = None
        self.start()
        start_anew_in_children(self)

    def start(self) -> None:
        """Continue after the ids that were made, with other random numbers."""
        self._lock = threading.Lock()
        self._ids = MessageIds(lambda: self._clock_ns() + self._offset_ns)
        if self._last is not None:
            self._ids.start_above(self._last)

    def next(self) -> MessageId:
        with self._lock:
            self._last = self._ids.next()
            return self._last

    def hear(self, date: str | None, sent_ago_seconds: float, came_ago_seconds: float) -> None:
        """Take note of the `Date` of an answer. The arguments say how long ago its request was sent
        and its head came.

        The server wrote the date at some moment between the two, and cut it off to seconds. So an
        answer that took long, or was read late, says little about the server's clock.
        """
        if date is None or date == self._last_date:
            return
        served_at = read_http_date(date)
        if served_at is None:
            return
        served_ns, now_ns = int(served_at.timestamp() * SECOND_NS), self._clock_ns()
        least_ns = served_ns - (now_ns - int(came_ago_seconds * SECOND_NS))
        most_ns = served_ns + SECOND_NS - (now_ns - int(sent_ago_seconds * SECOND_NS))
        with self._lock:
            self._last_date = date
            if not least_ns - _SKEW_NS <= self._offset_ns <= most_ns + _SKEW_NS:
                self._offset_ns = (least_ns + most_ns) // 2


def read_http_date(text: str) -> datetime | None:
    """Return the time of a `Date` header, or None if it is malformed."""
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    # The zone -0000 says that the time is UTC and no more.
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
