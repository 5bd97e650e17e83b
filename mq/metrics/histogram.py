"""Histograms as plain numbers, counted as messages pass and read when metrics are scraped."""

from __future__ import annotations

from bisect import bisect_left

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""Bounds for durations."""

REQUESTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Bounds for the number of requests in a round."""


class Histogram:
    """A histogram: counts by upper bound. For one writing thread."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return each bound with the number of values up to it. The last one counts all values."""
        found: list[tuple[str, float]] = []
        seen = 0
        for bound, count in zip((*self._bounds, "+Inf"), list(self._counts), strict=True):
            seen += count
            found.append((str(bound), seen))
        return found


class CommitStats:
    """How long rounds took from their first file call to their last, and how many requests each
    one was for."""

    def __init__(self) -> None:
        self.durations = Histogram(SECONDS)
        self.requests = Histogram(REQUESTS)
