"""The durations of requests, by route, method and status."""

from __future__ import annotations

from mq.metrics.histogram import SECONDS, Histogram
from mq.metrics.tally import ServerCounts
from mq.web.routes import Found

OTHER = "other"
"""The label of every path and method that MQ does not have. It keeps the number of series bounded,
whatever clients send."""


class Durations:
    """A histogram for each route, method and status that came up. With `shared` the server that
    started this process reports them."""

    def __init__(self, shared: ServerCounts | None = None) -> None:
        self._shared = shared
        self.found: dict[tuple[str, str, int], Histogram] = {}
        if shared is not None:
            for (route, method, status), histogram in shared.requests().items():
                self.found[route, method, int(status)] = histogram

    def observe(self, found: Found | None, method: str, status: int, seconds: float) -> None:
        route = OTHER if found is None else found.path
        if found is None or method not in found.resource:
            method = OTHER
        self.add(route, method, status, seconds)

    def add(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request. It costs less than prometheus_client's `observe`, for labels with few
        values."""
        histogram = self.found.get((route, method, status))
        if histogram is None:
            histogram = self.found[route, method, status] = self._begin(route, method, status)
        histogram.observe(seconds)

    def _begin(self, route: str, method: str, status: int) -> Histogram:
        if self._shared is None:
            return Histogram(SECONDS)
        return self._shared.begin_kind(route, method, str(status))
