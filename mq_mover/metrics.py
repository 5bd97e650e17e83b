"""The metrics of a mover."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric

from mq.config import SECOND_NS
from mq.metrics.exposition import gauge, message_counters, moved
from mq.metrics.tally import MoverCounts, by_queue

_ABOUT = {
    "redelivered": "Received messages moved back to their queue.",
    "dead_lettered": "Messages moved to a dead letter queue.",
}


def mover_metrics(counts: MoverCounts) -> Iterable[Metric]:
    yield from message_counters(_ABOUT, by_queue(counts))
    yield moved(counts)
    yield gauge(
        "mq_mover_lag_seconds",
        "How late the message that is being moved is; 0 while none is due.",
        counts.lag_ns / SECOND_NS,
    )
