"""Signals that stop a worker."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

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

    Only the main thread is told of signals; in other threads this does nothing. An event loop keeps
    its own handlers, which it calls at the first signal too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = {int(each): signal.getsignal(each) for each in signals}
    first_at: float | None = None

    def restore() -> None:
        for each, handler in usual.items():
            signal.signal(each, handler)

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal first_at
        if first_at is None:
            first_at = clock()
            stop()
        elif clock() - first_at >= SAME_SIGNAL_SECONDS:
            restore()
            handler = usual[number]
            if callable(handler):
                handler(number, frame)
            else:
                signal.raise_signal(number)

    for each in usual:
        signal.signal(each, on_signal)
    try:
        yield
    finally:
        restore()
