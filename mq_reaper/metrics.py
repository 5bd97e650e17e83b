"""What a reaper's `/metrics` tells."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric

from mq.config import Address
from mq.exposition import counter, gauge, serve_in_thread
from mq_reaper.reaper import Counts


def serve_metrics(address: Address, counts: Counts) -> Address:
    """Serve them beside the reaper; returns where. Raises StartRefused."""
    return Address(address.host, serve_in_thread(address, _Collector(counts)))


class _Collector:
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        yield counter("mq_messages_reaped", "Files unlinked.", self._counts.reaped)
        yield gauge(
            "mq_reaper_kept_files", "Files that the last look left for later.", self._counts.kept
        )
