"""How long requests took, by route, method and status."""

from __future__ import annotations

from mq.metrics.histogram import SECONDS, Histogram
from mq.web.routes import Found

OTHER = "other"
"""The label of every path and method that is not MQ's: whatever clients send, the number of
series is bounded."""


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
        """As `observe`, for labels of which there are few."""
        histogram = self.found.get((route, method, status))
        if histogram is None:
            histogram = self.found[route, method, status] = Histogram(SECONDS)
        histogram.observe(seconds)
