"""Processes forked to do a share of some work beside this one.

They do nothing but system calls on what was open before, and end with their work or by a signal.
Whoever starts one does its work again if it failed: that must change nothing, or find nothing left.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

MOST_PROCESSES = 4
"""The kernel does one rename of a file system at a time; beyond these they wait for one another."""


def processors() -> int:
    """How many processes can work side by side."""
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSES)


@contextmanager
def done_beside(works: Sequence[Callable[[], object]]) -> Iterator[None]:
    """While the block runs, each of `works` is done by a process of its own, as far as there can be
    one. On leaving all of them have ended, done or not."""
    started = [fork_to(work) for work in works]
    try:
        yield
    finally:
        for process in started:
            wait_for(process)


def fork_to(work: Callable[[], object]) -> int | None:
    """A process that does `work` and ends; None if there cannot be another one now."""
    with warnings.catch_warnings():
        # Of other threads, from Python 3.12 on: none of their locks is asked for.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            process = os.fork()
        except OSError:
            return None
    if process == 0:
        try:
            # As at a process's start: a signal ends it, and so does a pipe that nobody reads.
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            work()
        finally:
            os._exit(0)
    return process


def wait_for(process: int | None) -> None:
    if process is None:
        return
    try:
        os.waitpid(process, 0)
    except ChildProcessError:
        # Whoever started this process has it ignore SIGCHLD.
        pass
