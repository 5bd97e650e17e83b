"""What a mover and a reaper count. Those of `mq --standalone` count in memory that they share with
the server, which tells the numbers in their place. A child that is started again goes on counting
there."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Generic, TypeVar

from mq.config import MAX_METRIC_QUEUES

MAX_QUEUE_NAME_BYTES = 80
"""The longest names are those that end with `.dead` or `.fifo`."""

TALLY_VARIABLE = "MQ_TALLY_FD"
"""`mq --standalone` sets this variable for its children: the descriptor of that memory."""


OTHER_QUEUES = "_other"
"""The label of all queues beyond the first MAX_METRIC_QUEUES; no queue has such a name."""


class MovedOfQueue(ctypes.Structure):
    """What a mover has done with the messages of one queue, whose name is in ASCII."""

    _fields_ = [
        ("name", ctypes.c_char * MAX_QUEUE_NAME_BYTES),
        ("redelivered", ctypes.c_uint64),
        ("dead_lettered", ctypes.c_uint64),
    ]
    name: bytes
    redelivered: int
    dead_lettered: int


class MoverCounts(ctypes.Structure):
    """What one mover has done since it started. `lag_ns` is how late it is with the file that it is
    moving; 0 while none is due. The first `queues` of `slots` belong to one queue each; the last
    one of all belongs to all further queues."""

    _fields_ = [
        ("moved", ctypes.c_uint64),
        ("lag_ns", ctypes.c_uint64),
        ("queues", ctypes.c_uint64),
        ("slots", MovedOfQueue * (MAX_METRIC_QUEUES + 1)),
    ]
    moved: int
    lag_ns: int
    queues: int
    slots: ctypes.Array[MovedOfQueue]

    def by_queue(self) -> dict[str, MovedOfQueue]:
        """Return the figures of each queue, and of the further queues if there are some."""
        found = {each.name.decode("ascii"): each for each in self.slots[: self.queues]}
        others = self.slots[MAX_METRIC_QUEUES]
        return found | {OTHER_QUEUES: others} if others.name else found

    @property
    def redelivered(self) -> int:
        return sum(each.redelivered for each in self.by_queue().values())

    @property
    def dead_lettered(self) -> int:
        return sum(each.dead_lettered for each in self.by_queue().values())


class MoverTally:
    """A mover's counts by queue. A mover that is started again goes on with the existing slots."""

    def __init__(self, counts: MoverCounts) -> None:
        self._counts = counts
        self._slots = counts.by_queue()

    def of(self, queue: str) -> MovedOfQueue:
        return self._slots.get(queue) or self._begin(queue)

    def _begin(self, queue: str) -> MovedOfQueue:
        number = self._counts.queues
        if number == MAX_METRIC_QUEUES:
            queue = OTHER_QUEUES
        slot = self._counts.slots[number]
        slot.name = queue.encode("ascii")
        # From now on the parent may read the slot. After a kill before this line the next mover
        # takes the slot.
        self._counts.queues = min(number + 1, MAX_METRIC_QUEUES)
        if queue != OTHER_QUEUES:
            self._slots[queue] = slot
        return slot


class ReaperCounts(ctypes.Structure):
    """What one reaper has done since it started, and what its last look left for later."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("reaped", "kept")]
    reaped: int
    kept: int


T = TypeVar("T", MoverCounts, ReaperCounts)


class Tally(Generic[T]):
    """The numbers of a child, which is given `fd`. The memory has no name, and ends with the last
    process that has it open."""

    def __init__(self, kind: type[T]) -> None:
        self.fd = os.memfd_create(kind.__name__)
        with open(self.fd, "wb", closefd=False) as memory:
            memory.write(bytes(kind()))
        self.counts: T = _shared(kind, self.fd)

    def close(self) -> None:
        os.close(self.fd)


def own_counts(kind: type[T]) -> T:
    """Return the numbers of this process, in its parent's memory if the parent gave it some."""
    fd = os.environ.pop(TALLY_VARIABLE, "")
    return _shared(kind, int(fd)) if fd else kind()


def _shared(kind: type[T], fd: int) -> T:
    return kind.from_buffer(mmap.mmap(fd, ctypes.sizeof(kind)))
