"""Forked processes that do a share of some work while this one does another.

They make only system calls on what was open before the fork, and end with their work or by a
signal. If one fails, the process that started it does its work again, so doing the same work twice
must do no harm. Nothing else in the packages forks.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

MOST_PROCESSES = 4
"""The kernel does one rename of a file system at a time, so more processes would only wait for one
another."""

_PIPE_BYTES = 64 * 1024

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE)
"""The signals that end such a process, whatever they do to the one that started it."""


def processors() -> int:
    """Return how many processes can work side by side."""
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSES)


@contextmanager
def done_beside(works: Sequence[Callable[[], object]]) -> Iterator[None]:
    """Run the block while each of `works` is done by a process of its own, if one can be started.
    When the block ends, so have all these processes, whether they have finished or not."""
    started = [fork_to(work) for work in works]
    try:
        yield
    finally:
        for process in started:
            wait_for(process)


class Helper:
    """A process that answers through a pipe. It ends when its work is done, when it is closed, and
    when this process ends, because the pipe then has no reader.

    `is_there` is False if the process could not be started; nothing comes from it then.
    """

    def __init__(self, work: Callable[[BinaryIO], object]) -> None:
        """`work` is handed the pipe, unbuffered."""
        self._answers, pipe = os.pipe()
        self.has_ended = False

        def answer() -> None:
            # With a copy of the reading end the child would wait on a full pipe for ever.
            os.close(self._answers)
            with open(pipe, "wb", buffering=0) as writing:
                work(writing)

        self._process = fork_to(answer)
        self.is_there = self._process is not None
        os.close(pipe)

    def read(self, wait: bool) -> bytes:
        """Return what has come since the last call; `has_ended` says that nothing more will.
        Without `wait` it returns at once."""
        os.set_blocking(self._answers, wait)
        try:
            read = os.read(self._answers, _PIPE_BYTES)
        except BlockingIOError:
            return b""
        self.has_ended = not read
        return read

    def close(self) -> None:
        """End the process; on return it has ended, whether its work is done or not."""
        os.close(self._answers)
        wait_for(self._process)


def fork_to(work: Callable[[], object]) -> int | None:
    """Start a process that does `work` and ends. Returns its id, or None if no process can be
    started now."""
    with warnings.catch_warnings():
        # From Python 3.12 on a fork with other threads around warns. The child asks for none of
        # their locks.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            process = os.fork()
        except OSError:
            return None
    if process == 0:
        try:
            # The child starts like any process: a signal ends it, and so does a pipe without a
            # reader.
            for number in _ENDING:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
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
        # This process was started with SIGCHLD ignored.
        pass
