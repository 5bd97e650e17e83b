"""When each of many files is due, asked of the kernel on every processor.

A stat costs the kernel about 2 µs, so a million of them keep one processor busy for seconds, and a
file that becomes due meanwhile waits for its turn. Of many files other processes, forked for the
purpose, look at a share each and answer through a pipe. They end with their work, and with the
mover, because nobody reads the pipe then.
"""

from __future__ import annotations

import os
import signal
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing

import structlog

from mq.spool.message import due_ns

log = structlog.get_logger(__name__)

_FILES_WORTH_A_PROCESS = 50_000
"""Starting one costs about as much as looking at so many files divided by ten."""

_MOST_PROCESSES = 4
_FILES_AT_ONCE = 2000
_GONE = -1
_AT_ONCE = 0
"""For a file that could not be looked at: whoever tries to move it finds out why."""

_LATEST = 2**63 - 1
_PIPE_BYTES = 64 * 1024

Due = tuple[str, int]
"""A file's name, and when it is due in ns since 1970."""


def due_times(folder_fd: int, names: Sequence[str], delay_ns: int) -> Iterator[list[Due]]:
    """When each file of a folder is due, some thousands at a time, in no order; not those that are
    gone."""
    processes = min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)
    share = max(-(-len(names) // processes), _FILES_WORTH_A_PROCESS)
    with ExitStack() as stack:
        helpers = [
            stack.enter_context(closing(_Helper(folder_fd, names[start : start + share], delay_ns)))
            for start in range(share, len(names), share)
        ]
        for some in _look(folder_fd, names[:share], delay_ns):
            yield some
            for helper in helpers:
                yield helper.read(wait=False)
        for helper in helpers:
            while not helper.has_ended:
                yield helper.read(wait=True)
            yield from _look(folder_fd, helper.unanswered(), delay_ns)


def _look(folder_fd: int, names: Sequence[str], delay_ns: int) -> Iterator[list[Due]]:
    for start in range(0, len(names), _FILES_AT_ONCE):
        some = names[start : start + _FILES_AT_ONCE]
        yield _pairs(some, _stat_each(folder_fd, some, delay_ns))


def _stat_each(folder_fd: int, names: Sequence[str], delay_ns: int) -> array[int]:
    found = array("q")
    for name in names:
        try:
            status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        except FileNotFoundError:
            found.append(_GONE)
        except OSError:
            found.append(_AT_ONCE)
        else:
            found.append(min(max(due_ns(status, delay_ns), 0), _LATEST))
    return found


def _pairs(names: Sequence[str], due: Iterable[int]) -> list[Due]:
    return [pair for pair in zip(names, due, strict=False) if pair[1] != _GONE]


class _Helper:
    """A process that looks at `names`. If it cannot be started, or dies, `unanswered` says for
    which names somebody else must look."""

    def __init__(self, folder_fd: int, names: Sequence[str], delay_ns: int) -> None:
        self._names = names
        self._answered = 0
        self._broken_off = b""
        self.has_ended = False
        self._pipe, answers = os.pipe()
        os.set_blocking(self._pipe, False)
        try:
            self._pid = os.fork()
        except OSError as error:
            log.warning("no process to help with the scan", error=str(error))
            self._pid = 0
        else:
            if self._pid == 0:
                _answer(folder_fd, names, delay_ns, answers)
        os.close(answers)

    def read(self, wait: bool) -> list[Due]:
        """What it has found since the last call, so far as it is there."""
        os.set_blocking(self._pipe, wait)
        try:
            read = os.read(self._pipe, _PIPE_BYTES)
        except BlockingIOError:
            return []
        self.has_ended = not read
        data = self._broken_off + read
        whole = len(data) - len(data) % array("q").itemsize
        self._broken_off = data[whole:]
        due = array("q", data[:whole])
        names = self._names[self._answered : self._answered + len(due)]
        self._answered += len(due)
        return _pairs(names, due)

    def unanswered(self) -> Sequence[str]:
        return self._names[self._answered :]

    def close(self) -> None:
        os.close(self._pipe)
        if self._pid:
            os.waitpid(self._pid, 0)


def _answer(folder_fd: int, names: Sequence[str], delay_ns: int, answers: int) -> None:
    """All that the forked process does; it never returns."""
    try:
        # As at a process's start: a signal ends it, and so does a pipe that nobody reads.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        with open(answers, "wb") as pipe:
            for start in range(0, len(names), _FILES_AT_ONCE):
                some = names[start : start + _FILES_AT_ONCE]
                pipe.write(_stat_each(folder_fd, some, delay_ns).tobytes())
                pipe.flush()
        os._exit(0)
    finally:
        os._exit(1)
