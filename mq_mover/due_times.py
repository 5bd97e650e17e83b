"""The due times of many files, asked of the kernel on every processor.

A stat costs the kernel about 2 µs, so a million of them keep one processor busy for seconds, and a
file that becomes due meanwhile waits for its turn. If there are many files, forked processes look
at a share each and answer through a pipe. They end when their work is done, and when the mover
ends, because the pipe then has no reader.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import BinaryIO

import structlog

from mq.disk.child_processes import Helper, processors
from mq.spool.message.seal import due_ns

log = structlog.get_logger(__name__)

_FILES_WORTH_A_PROCESS = 50_000
"""Starting a process costs about as much as looking at a tenth of this number of files."""

_FILES_AT_ONCE = 2000
_GONE = -1
_AT_ONCE = 0
"""The due time of a file that could not be looked at: the attempt to move it finds out why."""

_LATEST = 2**63 - 1

Due = tuple[str, int]
"""A file's name, and when it is due in ns since 1970."""


def due_times(folder_fd: int, names: Sequence[str], delay_ns: int) -> Iterator[list[Due]]:
    """Yield the due times of the files in a folder, some thousands at a time, in no order. Files
    that are gone are left out."""
    processes = processors()
    share = max(-(-len(names) // processes), _FILES_WORTH_A_PROCESS)
    with ExitStack() as stack:
        shares = [
            stack.enter_context(closing(_Share(folder_fd, names[start : start + share], delay_ns)))
            for start in range(share, len(names), share)
        ]
        for some in _look(folder_fd, names[:share], delay_ns):
            yield some
            for each in shares:
                yield each.read(wait=False)
        for each in shares:
            while not each.has_ended:
                yield each.read(wait=True)
            yield from _look(folder_fd, each.unanswered(), delay_ns)


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


class _Share:
    """The names that another process looks at. If that process cannot be started, or dies,
    `unanswered` says which of them must be looked at again."""

    def __init__(self, folder_fd: int, names: Sequence[str], delay_ns: int) -> None:
        self._names = names
        self._answered = 0
        self._broken_off = b""
        self._helper = Helper(partial(_answer, folder_fd, names, delay_ns))
        self.close = self._helper.close
        if not self._helper.is_there:
            log.warning("no process to help with the scan")

    @property
    def has_ended(self) -> bool:
        return self._helper.has_ended

    def read(self, wait: bool) -> list[Due]:
        """Return what the process has found since the last call."""
        data = self._broken_off + self._helper.read(wait)
        whole = len(data) - len(data) % array("q").itemsize
        self._broken_off = data[whole:]
        due = array("q", data[:whole])
        names = self._names[self._answered : self._answered + len(due)]
        self._answered += len(due)
        return _pairs(names, due)

    def unanswered(self) -> Sequence[str]:
        return self._names[self._answered :]


def _answer(folder_fd: int, names: Sequence[str], delay_ns: int, pipe: BinaryIO) -> None:
    """Do all the work of the forked process."""
    for start in range(0, len(names), _FILES_AT_ONCE):
        pipe.write(_stat_each(folder_fd, names[start : start + _FILES_AT_ONCE], delay_ns).tobytes())
