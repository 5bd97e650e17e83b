"""What servers, a mover and a reaper count. Those that `mq --standalone` starts count in memory
that they share with it, and it reports the numbers for them. A child that is started again goes on
counting there."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from mq.config import MAX_METRIC_QUEUES
from mq.metrics.histogram import SECONDS, Histogram

MAX_QUEUE_NAME_BYTES = 85
"""The longest names are those that end with `.dead` or `.fifo`."""

TALLY_VARIABLE = "MQ_TALLY_FD"
"""`mq --standalone` sets this variable for its children: the descriptor of the shared memory."""


OTHER_QUEUES = "_other"
"""The label of all queues beyond the first MAX_METRIC_QUEUES; no queue has such a name."""


class DoneInQueue(ctypes.Structure):
    """What a server or a mover has done to the messages of one queue, whose name is in ASCII, and
    how many receives were `waiting` there for a message a moment ago. A mover counts what it has
    `redelivered` and `dead_lettered`."""

    _fields_ = [
        ("name", ctypes.c_char * MAX_QUEUE_NAME_BYTES),
        ("published", ctypes.c_uint64),
        ("received", ctypes.c_uint64),
        ("redelivered", ctypes.c_uint64),
        ("removed", ctypes.c_uint64),
        ("dead_lettered", ctypes.c_uint64),
        ("expired", ctypes.c_uint64),
        ("moved", ctypes.c_uint64),
        ("waiting", ctypes.c_uint64),
    ]
    name: bytes
    published: int
    received: int
    redelivered: int
    removed: int
    dead_lettered: int
    expired: int
    moved: int
    waiting: int


class CountsByQueue(Protocol):
    """Figures by queue. The first `queues` of `slots` belong to one queue each; the last one of all
    belongs to all further queues."""

    queues: int
    slots: ctypes.Array[DoneInQueue]


def by_queue(counts: CountsByQueue) -> dict[str, DoneInQueue]:
    """Return the figures of each queue, and of the further queues if there are some."""
    found = {each.name.decode("ascii"): each for each in counts.slots[: counts.queues]}
    others = counts.slots[MAX_METRIC_QUEUES]
    return found | {OTHER_QUEUES: others} if others.name else found


class MoverCounts(ctypes.Structure):
    """What one mover has done since it started. `lag_ns` is how late it is with the file that it is
    moving; 0 while none is due."""

    _fields_ = [
        ("moved", ctypes.c_uint64),
        ("lag_ns", ctypes.c_uint64),
        ("queues", ctypes.c_uint64),
        ("slots", DoneInQueue * (MAX_METRIC_QUEUES + 1)),
    ]
    moved: int
    lag_ns: int
    queues: int
    slots: ctypes.Array[DoneInQueue]


class QueueTally:
    """A child's counts by queue. One that is started again goes on with the existing slots."""

    def __init__(self, counts: CountsByQueue) -> None:
        self._counts = counts
        self._slots = by_queue(counts)

    def of(self, queue: str) -> DoneInQueue:
        return self._slots.get(queue) or self._begin(queue)

    def _begin(self, queue: str) -> DoneInQueue:
        number = self._counts.queues
        if number == MAX_METRIC_QUEUES or queue == OTHER_QUEUES:
            others = self._counts.slots[MAX_METRIC_QUEUES]
            others.name = OTHER_QUEUES.encode("ascii")
            return others
        slot = self._slots[queue] = self._counts.slots[number]
        slot.name = queue.encode("ascii")
        # From now on the parent may read the slot. After a kill before this line the next child
        # takes the slot.
        self._counts.queues = number + 1
        return slot


class ReaperCounts(ctypes.Structure):
    """What one reaper has done since it started, and what its last look left for later."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("reaped", "kept")]
    reaped: int
    kept: int


_MAX_KINDS = 640
"""How many kinds of requests are reported: 24 operations in two protocols, with up to 13
outcomes."""

_KIND_BYTES = 80


class RequestsOfKind(ctypes.Structure):
    """How long requests with the same labels took. `name` has the labels, with spaces between
    them."""

    _fields_ = [
        ("name", ctypes.c_char * _KIND_BYTES),
        ("total", ctypes.c_double),
        ("counts", ctypes.c_uint64 * (len(SECONDS) + 1)),
    ]
    name: bytes
    total: float
    counts: ctypes.Array[ctypes.c_uint64]


class SharedHistogram(Histogram):
    """A histogram of seconds in memory that another process reads."""

    __slots__ = ("_slot",)

    def __init__(self, slot: RequestsOfKind) -> None:
        self._slot = slot
        self._bounds = SECONDS
        self._counts: Any = slot.counts

    @property
    def total(self) -> float:
        return self._slot.total

    @total.setter
    def total(self, value: float) -> None:
        self._slot.total = value


class ServerCounts(ctypes.Structure):
    """What one server has done since it started. `kinds` are the requests of a gateway; the first
    `number_of_kinds` are in use."""

    _fields_ = [
        ("corrupt", ctypes.c_uint64),
        ("failed_sweeps", ctypes.c_uint64),
        ("queues", ctypes.c_uint64),
        ("slots", DoneInQueue * (MAX_METRIC_QUEUES + 1)),
        ("number_of_kinds", ctypes.c_uint64),
        ("kinds", RequestsOfKind * _MAX_KINDS),
    ]
    corrupt: int
    failed_sweeps: int
    queues: int
    slots: ctypes.Array[DoneInQueue]
    number_of_kinds: int
    kinds: ctypes.Array[RequestsOfKind]

    def requests(self) -> Mapping[tuple[str, ...], Histogram]:
        """Return how long requests took, by their labels."""
        return {
            tuple(each.name.decode("ascii").split(" ")): SharedHistogram(each)
            for each in self.kinds[: self.number_of_kinds]
        }

    def begin_kind(self, *labels: str) -> Histogram:
        """Return the histogram for requests of one more kind. It is reported while there is
        room."""
        number, name = self.number_of_kinds, " ".join(labels).encode("ascii")
        if number == _MAX_KINDS or len(name) > _KIND_BYTES:
            return Histogram(SECONDS)
        self.kinds[number].name = name
        self.number_of_kinds = number + 1
        return SharedHistogram(self.kinds[number])


T = TypeVar("T", MoverCounts, ReaperCounts, ServerCounts)


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
    return shared_counts(kind) or kind()


def shared_counts(kind: type[T]) -> T | None:
    """Return the numbers of this process in its parent's memory, or None if the parent gave it
    none."""
    fd = os.environ.pop(TALLY_VARIABLE, "")
    return _shared(kind, int(fd)) if fd else None


def _shared(kind: type[T], fd: int) -> T:
    return kind.from_buffer(mmap.mmap(fd, ctypes.sizeof(kind)))
