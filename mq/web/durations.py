"""The durations of requests, by route, method and status."""

from __future__ import annotations

from mq.metrics.histogram import SECONDS, Histogram
from mq.web.routes import Found

OTHER = "other"
"""The label of every path and method that MQ does not have. It keeps the number of series bounded,
whatever clients send."""


class Durations:
    """A histogram for each route, method and status that came up."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, int], Histogram] = {}

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
            histogram = self.found[route, method, status] = Histogram(SECONDS)
        histogram.observe(seconds)
