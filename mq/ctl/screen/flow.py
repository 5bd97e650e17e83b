"""How fast messages come to queues and leave them, from one look to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mq.ctl.ways.access import Passed, QueueCounts
from mq.names import QueueName, dead_letter_queue


class QueueFlow(NamedTuple):
    """A queue as `mqctl top` shows it; rates are messages a second, None at the first look. If it
    is `paused`, nobody receives its messages."""

    queue: str
    ready: int
    leased: int
    delayed: int
    dead: int
    oldest_age_seconds: float | None
    in_rate: float | None
    out_rate: float | None
    paused: bool = False


class FlowMeter:
    """Compares each look with the one before."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[QueueCounts, Passed]] = {}
        self._time: float | None = None

    def measure(
        self, now: float, queues: Sequence[QueueCounts], passed: Mapping[str, Passed]
    ) -> list[QueueFlow]:
        """Compare with the look before; `now` is in seconds of any clock. What `passed` does not
        know of a queue comes from its counts."""
        seconds = None if self._time is None else max(now - self._time, 1e-3)
        latest = {each.queue: (each, passed.get(each.queue, Passed(0, 0))) for each in queues}
        flows = [self._flow(each, latest, seconds) for each in queues]
        self._before, self._time = latest, now
        return flows

    def _flow(
        self,
        counts: QueueCounts,
        latest: Mapping[str, tuple[QueueCounts, Passed]],
        seconds: float | None,
    ) -> QueueFlow:
        dead = dead_letter_queue(QueueName(counts.queue))
        found = latest.get(dead) if dead is not None else None
        came = went = None
        if seconds is not None:
            came, went = self._moved(*latest[counts.queue])
            came, went = came / seconds, went / seconds
        return QueueFlow(
            counts.queue, counts.ready, counts.leased, counts.delayed,
            0 if found is None else found[0].total, counts.oldest_age_seconds, came, went,
            counts.paused,
        )  # fmt: skip

    def _moved(self, counts: QueueCounts, passed: Passed) -> tuple[float, float]:
        """Return how many came and went. The counts say how many more there are, the counters how
        many went; other servers of the root may have moved some that the counters do not know."""
        if counts.queue not in self._before:
            return float(counts.total), 0.0
        counts_before, passed_before = self._before[counts.queue]
        more = counts.total - counts_before.total
        published = max(passed.published - passed_before.published, 0)
        gone = max(passed.gone - passed_before.gone, 0)
        came = max(published, more + gone, 0)
        return float(came), float(max(gone, came - more))
