"""The metrics of a reaper."""

from __future__ import annotations

from functools import partial

from mq.config import Address
from mq.metrics.exposition import reaped, serve_in_thread
from mq.metrics.tally import ReaperCounts


def serve_metrics(address: Address, counts: ReaperCounts) -> Address:
    """Serve the metrics beside the reaper. Returns the address. Raises StartRefused."""
    return serve_in_thread(address, partial(reaped, counts))
