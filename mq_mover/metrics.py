"""The metrics of a mover."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric

from mq.config import SECOND_NS
from mq.metrics.exposition import counter, counter_by_queue, gauge, moved
from mq.metrics.tally import MoverCounts, by_queue

_ABOUT = (
    (
        "redelivered",
        "Received messages moved back to their queue.",
        "Received messages of a queue that were moved back to it.",
    ),
    (
        "dead_lettered",
        "Messages moved to a dead letter queue.",
        "Messages of a queue that were moved to a dead letter queue.",
    ),
)


def mover_metrics(counts: MoverCounts) -> Iterable[Metric]:
    activity = by_queue(counts)
    for name, help, help_by_queue in _ABOUT:
        found = {queue: getattr(each, name) for queue, each in activity.items()}
        yield counter(f"mq_messages_{name}", help, sum(found.values()))
        yield counter_by_queue(f"mq_queue_messages_{name}", help_by_queue, found)
    yield moved(counts)
    yield gauge(
        "mq_mover_lag_seconds",
        "How late the message that is being moved is; 0 while none is due.",
        counts.lag_ns / SECOND_NS,
    )
