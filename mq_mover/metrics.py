"""What a mover's `/metrics` tells."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric

from mq.config import Address
from mq.exposition import counter, gauge, serve_in_thread
from mq_mover.mover import Counts

_NS = 1_000_000_000


def serve_metrics(address: Address, counts: Counts) -> Address:
    """Serve them beside the mover; returns where. Raises StartRefused."""
    return Address(address.host, serve_in_thread(address, _Collector(counts)))


class _Collector:
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        counts = self._counts
        yield counter(
            "mq_messages_redelivered", "Messages moved to their queue.", counts.redelivered
        )
        yield counter(
            "mq_messages_dead_lettered",
            "Messages moved to a dead letter queue.",
            counts.dead_lettered,
        )
        yield counter("mq_mover_moved", "Other files moved.", counts.moved)
        yield gauge(
            "mq_mover_lag_seconds",
            "How late the message is that is moved just now; 0 while none is due.",
            counts.lag_ns / _NS,
        )
