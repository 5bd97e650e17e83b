"""How a job is stopped: by SIGINT or SIGTERM, at any moment."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.2
STOP_SECONDS = 30.0
"""How long a job may take to end after a signal. It can be killed at any moment, so this is only
for its last words."""
END_SECONDS = 10.0
"""How long a child may take to end after SIGTERM. A JVM removes its temporary files meanwhile."""


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
    outcome: Future[T] = Future()

    def work() -> None:
        try:
            outcome.set_result(job())
        except BaseException as error:
            outcome.set_exception(error)

    try:
        threading.Thread(target=work, name="job", daemon=True).start()
        # Not a join: Python 3.11 takes a thread for ended when a signal interrupts its join.
        while not wait([outcome], _POLL_SECONDS).done:
            pass
    except KeyboardInterrupt:
        stop()
        wait([outcome], STOP_SECONDS)
        raise
    return outcome.result()


def end_children() -> None:
    """End the processes that this one has started, and say nothing of what fails without them.

    A JVM that is starting would only notice that its command is gone once it has started, which
    takes minutes on a busy machine.
    """
    logging.disable()
    _signal_descendants(signal.SIGTERM)
    give_up_at = time.monotonic() + END_SECONDS
    while _descendants(os.getpid()) and time.monotonic() < give_up_at:
        time.sleep(_POLL_SECONDS)
    _signal_descendants(signal.SIGKILL)


def _signal_descendants(number: signal.Signals) -> None:
    for pid in _descendants(os.getpid()):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _descendants(ancestor: int) -> list[int]:
    """Return the processes below this one that run, parents before their children."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, *_ = status.read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue  # It has just ended.
        if state not in "ZX":
            children.setdefault(int(parent), []).append(int(status.parent.name))
    found: list[int] = []
    below = children.get(ancestor, [])
    while below:
        found += below
        below = [each for pid in below for each in children.get(pid, [])]
    return found
