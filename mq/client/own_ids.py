"""Ids for messages that a client publishes: UUIDs of version 7, by the server's clock."""

from __future__ import annotations

import os
import threading
import time
from datetime import datetime
from email.utils import parsedate_to_datetime

from mq.config import CLIENT_CLOCK_SKEW_SECONDS
from mq.names import MessageId, MessageIds

_NS = 1_000_000_000
_HALF_SECOND_NS = _NS // 2
"""`Date` is cut off to seconds: half a second later is the best guess."""


class OwnIds:
    """Strictly increasing, for any number of threads, as long as clocks agree.

    The time in an id is its message's place in the queue, so a machine whose clock is wrong would
    put its messages before or behind those of all others. Once an answer shows that, ids follow the
    server's clock.
    """

    def __init__(self) -> None:
        self._offset_ns = 0
        self._last_date: str | None = None
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._ids = MessageIds(lambda: time.time_ns() + self._offset_ns)

    def next(self) -> MessageId:
        if self._pid != os.getpid():
            # The random numbers of a forked process must not be its parent's, and a lock that was
            # held when it was forked stays so.
            self._begin()
        with self._lock:
            return self._ids.next()

    def hear(self, date: str | None) -> None:
        """Take note of the `Date` of an answer."""
        if date is None or date == self._last_date:
            return
        self._last_date = date
        served_at = read_http_date(date)
        if served_at is None:
            return
        offset_ns = int(served_at.timestamp() * _NS) + _HALF_SECOND_NS - time.time_ns()
        if abs(offset_ns - self._offset_ns) > CLIENT_CLOCK_SKEW_SECONDS * _NS:
            self._offset_ns = offset_ns
            self._begin()


def read_http_date(text: str) -> datetime | None:
    """The time of a `Date` header; None if it is none."""
    try:
        return parsedate_to_datetime(text)
    except ValueError:
        return None
