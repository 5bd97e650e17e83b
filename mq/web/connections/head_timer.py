"""The time that a client has for the head of a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

CutOff = Callable[[], None]
"""Called when the head has not come in time."""


class HeadTimer:
    """The time of one connection. `has_begun` says that the beginning of a head has come."""

    __slots__ = ("_loop", "_seconds", "_timer", "has_begun")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self.has_begun = False

    @property
    def is_running(self) -> bool:
        return self._timer is not None

    def start(self, cut_off: CutOff) -> None:
        """Give a client its time from now on, unless that has begun before."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, cut_off)

    def begin_head(self, cut_off: CutOff) -> None:
        """Note that the beginning of a head has come, and start if need be."""
        self.has_begun = True
        self.start(cut_off)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self.has_begun = False
