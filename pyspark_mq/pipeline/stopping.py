"""How a job is stopped: by SIGINT or SIGTERM, at any moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.2
STOP_SECONDS = 30.0
"""How long a job may take to end after a signal. It can be killed at any moment, so this is only
for its last words."""


class _Outcome:
    """What a job returned or raised."""

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None


def raise_on_signals() -> None:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt. A shell starts background jobs with SIGINT
    ignored, and Spark puts a handler of its own in its place."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def run_until_stopped(job: Callable[[], T], stop: Callable[[], object]) -> T:
    """Run a job in a thread of its own, and return or raise what it does.

    On a signal `stop` is called, the job gets a while to end, and KeyboardInterrupt is raised. The
    job itself is never interrupted: an exception in the middle of a call to the JVM would leave the
    answer on the connection, where the next call takes it for its own.
    """
    outcome, ended = _Outcome(), threading.Event()

    def work() -> None:
        try:
            outcome.value = job()
        except BaseException as error:
            outcome.error = error
        finally:
            ended.set()

    try:
        threading.Thread(target=work, name="job", daemon=True).start()
        # Not a join: Python 3.11 takes a thread for ended when a signal interrupts its join.
        while not ended.wait(_POLL_SECONDS):
            pass
    except KeyboardInterrupt:
        stop()
        ended.wait(STOP_SECONDS)
        raise
    if outcome.error is not None:
        raise outcome.error
    value: T = outcome.value
    return value
