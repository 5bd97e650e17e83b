"""What one server has done since it started: plain numbers, counted by queue where it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from threading import Lock

import structlog

from mq.config import MAX_METRIC_QUEUES
from mq.metrics.tally import (
    OTHER_QUEUES,
    DoneInQueue,
    GatewayCounts,
    QueueTally,
    by_queue,
)
from mq.names import QueueName

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class QueueActivity:
    """What was done to the messages of one queue. Only the committer counts here."""

    published: int = 0
    received: int = 0
    redelivered: int = 0
    removed: int = 0
    dead_lettered: int = 0
    expired: int = 0
    moved: int = 0


@dataclass(slots=True)
class _OfProcess:
    """Figures that belong to no single queue."""

    corrupt: int = 0
    failed_sweeps: int = 0


Activity = QueueActivity | DoneInQueue
"""Figures of a queue, in memory of this process or in that of its parent."""

ACTIVITIES = tuple(each.name for each in fields(QueueActivity))


class OperationCounts:
    """The activity of each queue; and of the server: damaged files and sweeps, which other threads
    count too.

    The first MAX_METRIC_QUEUES queues to which anything is done have figures of their own from then
    on, even after they are deleted. All others are counted together. With `shared` the server that
    started this process reports the figures.
    """

    def __init__(self, shared: GatewayCounts | None = None) -> None:
        self._of_process = shared or _OfProcess()
        self._tally = None if shared is None else QueueTally(shared)
        self._by_queue: dict[str, Activity] = {} if shared is None else {**by_queue(shared)}
        known = self._by_queue.pop(OTHER_QUEUES, None)
        self._has_others = known is not None
        self._others: Activity = known or QueueActivity()
        self._lock = Lock()
        self._shows_waiting = True
        self.show_waiting({})

    @property
    def corrupt(self) -> int:
        return self._of_process.corrupt

    @property
    def failed_sweeps(self) -> int:
        return self._of_process.failed_sweeps

    def of(self, queue: str) -> Activity:
        """Return the figures in which to count what is done to messages of the queue."""
        return self._by_queue.get(queue) or self._begin(queue)

    def by_queue(self) -> dict[str, Activity]:
        """Return the figures of each queue, and of the others if there are some. For any thread."""
        found = self._by_queue.copy()
        return found | {OTHER_QUEUES: self._others} if self._has_others else found

    def label(self, queue: str) -> str:
        """Return the name under which others report what they count of the queue: its own, or
        OTHER_QUEUES."""
        return queue if self.of(queue) is not self._others else OTHER_QUEUES

    def show_waiting(self, waiting: Mapping[QueueName, int]) -> None:
        """Show the server that started this process how many receives wait here for each queue, all
        of them. Without such a server nobody looks."""
        if self._tally is None or not (waiting or self._shows_waiting):
            return
        self._shows_waiting = bool(waiting)
        shown: Counter[str] = Counter()
        for queue, number in waiting.items():
            shown[self.label(queue)] += number
        for label, each in self.by_queue().items():
            assert isinstance(each, DoneInQueue)
            each.waiting = shown[label]

    def _begin(self, queue: str) -> Activity:
        with self._lock:
            if queue in self._by_queue:
                return self._by_queue[queue]
            if queue != OTHER_QUEUES and len(self._by_queue) < MAX_METRIC_QUEUES:
                self._by_queue[queue] = self._new(queue)
                return self._by_queue[queue]
            if not self._has_others:
                self._others = self._new(OTHER_QUEUES)
                self._has_others = True  # Last, because another thread may look meanwhile.
                log.warning(
                    f"the metrics have figures of {MAX_METRIC_QUEUES} queues each; those of all "
                    f"others are added up under {OTHER_QUEUES}"
                )
            return self._others

    def _new(self, queue: str) -> Activity:
        return QueueActivity() if self._tally is None else self._tally.of(queue)

    def add_corrupt(self, number: int) -> None:
        with self._lock:
            self._of_process.corrupt += number

    def add_failed_sweep(self) -> None:
        with self._lock:
            self._of_process.failed_sweeps += 1
