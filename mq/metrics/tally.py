"""What a mover and a reaper count. Those of `mq --standalone` count in memory that they share with
the server, which tells it in their place; a child that is started again goes on counting there."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Generic, TypeVar

TALLY_VARIABLE = "MQ_TALLY_FD"
"""Set by `mq --standalone` for its children: the descriptor of that memory."""


class MoverCounts(ctypes.Structure):
    """What one mover has done since it started. `lag_ns` is how late the file was that is moved
    just now; 0 while none is due."""

    _fields_ = [(name, ctypes.c_uint64) for name in (
        "moved", "redelivered", "dead_lettered", "lag_ns")]  # fmt: skip
    moved: int
    redelivered: int
    dead_lettered: int
    lag_ns: int


class ReaperCounts(ctypes.Structure):
    """What one reaper has done since it started, and what its last look left for later."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("reaped", "kept")]
    reaped: int
    kept: int


T = TypeVar("T", MoverCounts, ReaperCounts)


class Tally(Generic[T]):
    """The numbers of a child that is given `fd`. The memory has no name, and ends with the last
    process that has it open."""

    def __init__(self, kind: type[T]) -> None:
        self.fd = os.memfd_create(kind.__name__)
        with open(self.fd, "wb", closefd=False) as memory:
            memory.write(bytes(kind()))
        self.counts: T = _shared(kind, self.fd)

    def close(self) -> None:
        os.close(self.fd)


def own_counts(kind: type[T]) -> T:
    """The numbers of this process, in its parent's memory if that gave it some."""
    fd = os.environ.pop(TALLY_VARIABLE, "")
    return _shared(kind, int(fd)) if fd else kind()


def _shared(kind: type[T], fd: int) -> T:
    return kind.from_buffer(mmap.mmap(fd, ctypes.sizeof(kind)))
