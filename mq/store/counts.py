"""What one server has done since it started: plain numbers, counted by queue where it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from threading import Lock

import structlog

from mq.config import MAX_METRIC_QUEUES
from mq.metrics.tally import OTHER_QUEUES, DoneInQueue, QueueTally, ServerCounts, by_queue
from mq.names import QueueName

log = structlog.get_logger(__name__)


class OperationCounts(QueueTally):
    """The activity of each queue, which only the committer counts; and of the server: damaged files
    and sweeps, which other threads count too.

    The first MAX_METRIC_QUEUES queues to which anything is done have figures of their own from then
    on, even after they are deleted. All others are counted together. With `shared` the server that
    started this process reports the figures.
    """

    def __init__(self, shared: ServerCounts | None = None) -> None:
        self._of_server = shared or ServerCounts()
        super().__init__(self._of_server)
        self._is_shared = shared is not None
        self._lock = Lock()
        self._shows_waiting = True
        self.show_waiting({})

    @property
    def corrupt(self) -> int:
        return self._of_server.corrupt

    @property
    def failed_sweeps(self) -> int:
        return self._of_server.failed_sweeps

    def by_queue(self) -> dict[str, DoneInQueue]:
        """Return the figures of each queue, and of the others if there are some. For any thread."""
        return by_queue(self._of_server)

    def label(self, queue: str) -> str:
        """Return the name under which others report what they count of the queue: its own, or
        OTHER_QUEUES."""
        return self.of(queue).name.decode("ascii")

    def show_waiting(self, waiting: Mapping[QueueName, int]) -> None:
        """Show the server that started this process how many receives wait here for each queue, all
        of them. Without such a server nobody looks."""
        if not (self._is_shared and (waiting or self._shows_waiting)):
            return
        self._shows_waiting = bool(waiting)
        shown: Counter[str] = Counter()
        for queue, number in waiting.items():
            shown[self.label(queue)] += number
        for label, each in self.by_queue().items():
            each.waiting = shown[label]

    def _begin(self, queue: str) -> DoneInQueue:
        with self._lock:
            have_others = bool(self._of_server.slots[MAX_METRIC_QUEUES].name)
            begun = self._slots.get(queue) or super()._begin(queue)
        if not have_others and self._of_server.slots[MAX_METRIC_QUEUES].name:
            log.warning(
                f"the metrics have figures of {MAX_METRIC_QUEUES} queues each; those of all "
                f"others are added up under {OTHER_QUEUES}"
            )
        return begun

    def add_corrupt(self, number: int) -> None:
        with self._lock:
            self._of_server.corrupt += number

    def add_failed_sweep(self) -> None:
        with self._lock:
            self._of_server.failed_sweeps += 1
