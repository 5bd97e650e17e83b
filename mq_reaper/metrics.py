"""The metrics of a reaper."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric

from mq.config import Address
from mq.metrics.exposition import reaped, serve_in_thread
from mq.metrics.tally import ReaperCounts


def serve_metrics(address: Address, counts: ReaperCounts) -> Address:
    """Serve the metrics beside the reaper. Returns the address. Raises StartRefused."""
    return serve_in_thread(address, _ReaperCollector(counts))


class _ReaperCollector:
    def __init__(self, counts: ReaperCounts) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        yield from reaped(self._counts)
