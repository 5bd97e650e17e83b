"""The metrics of a mover."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric

from mq.config import SECOND_NS
from mq.metrics.exposition import counter, counter_by_queue, gauge, moved
from mq.metrics.tally import MoverCounts


def mover_metrics(counts: MoverCounts) -> Iterable[Metric]:
    yield counter(
        "mq_messages_redelivered",
        "Received messages moved back to their queue.",
        counts.redelivered,
    )
    yield counter(
        "mq_messages_dead_lettered",
        "Messages moved to a dead letter queue.",
        counts.dead_lettered,
    )
    for name, help in (
        ("redelivered", "Received messages of a queue that were moved back to it."),
        ("dead_lettered", "Messages of a queue that were moved to a dead letter queue."),
    ):
        found = {queue: getattr(each, name) for queue, each in counts.by_queue().items()}
        yield counter_by_queue(f"mq_queue_messages_{name}", help, found)
    yield moved(counts)
    yield gauge(
        "mq_mover_lag_seconds",
        "How late the message that is being moved is; 0 while none is due.",
        counts.lag_ns / SECOND_NS,
    )
