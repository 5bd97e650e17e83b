"""Signals that stop a worker."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SAME_SIGNAL_SECONDS = 0.5
"""A signal that comes sooner after the one that stops a worker is a repetition of it."""

HEED_SECONDS = 1.0
"""How soon a worker heeds a signal that did not wake it."""


@contextmanager
def stopping_on(
    signals: Iterable[signal.Signals],
    stop: Callable[[], object],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Call `stop` at the first of `signals`. Those that come with it count as the same one: a
    supervisor often sends one to the process and to its group, or passes on what the terminal has
    sent already. One that comes later has its usual effect, and so have all after it.

    Several of these blocks, which may end in any order, heed the same signal. SIGINT stays ignored
    if it is, as a shell starts background jobs. A signal that a program around Python handles
    itself, as uWSGI does, is left to it: nothing here could put its handler back. Only the main
    thread is told of signals; in other threads this does nothing. An event loop keeps its own
    handlers, which it calls at the first signal too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = _SignalHandler(filter(_is_heeded, signals), stop, clock)
    handler.begin()
    try:
        yield
    finally:
        handler.end()


def _is_heeded(number: signal.Signals) -> bool:
    if signal.getsignal(number) is None:
        return False
    return number != signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN


class _SignalHandler:
    """Handles the signals of one worker. What handled each of them before may be one of these too,
    of a worker that may have ended since."""

    def __init__(
        self,
        signals: Iterable[signal.Signals],
        stop: Callable[[], object],
        clock: Callable[[], float],
    ) -> None:
        self._before: dict[int, Any] = {int(each): signal.getsignal(each) for each in signals}
        self._stop = stop
        self._clock = clock
        self._first_at: float | None = None
        self._has_ended = False

    def begin(self) -> None:
        for each in self._before:
            signal.signal(each, self)

    def end(self) -> None:
        self._has_ended = True
        for each in self._before:
            usual = self._usual(each)
            # A worker that began later has its own handler in place, and passes this one over.
            if signal.getsignal(each) is self:
                signal.signal(each, usual)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        usual = self._usual(number)
        if self._first_at is None:
            self._first_at = self._clock()
            self._stop()
            if isinstance(usual, _SignalHandler):
                usual(number, frame)
        elif self._clock() - self._first_at >= SAME_SIGNAL_SECONDS:
            self.end()
            signal.signal(number, usual)
            if callable(usual):
                usual(number, frame)
            else:
                signal.raise_signal(number)

    def _usual(self, number: int) -> Any:
        """Return what handles a signal apart from this and from workers that have ended."""
        usual = self._before[number]
        while isinstance(usual, _SignalHandler) and usual._has_ended:
            usual = usual._before[number]
        return usual
