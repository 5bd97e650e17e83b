"""Signals that stop a worker."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopping_on(signals: Iterable[signal.Signals], stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` at the first of `signals`, and give all of them their usual effect again. Only
    the main thread is told of signals; in other threads this does nothing.

    An event loop keeps its own handlers, which it calls at the first signal too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = {each: signal.getsignal(each) for each in signals}

    def restore() -> None:
        for each, handler in usual.items():
            signal.signal(each, handler)

    def on_signal(number: int, frame: FrameType | None) -> None:
        restore()
        stop()

    for each in usual:
        signal.signal(each, on_signal)
    try:
        yield
    finally:
        restore()
