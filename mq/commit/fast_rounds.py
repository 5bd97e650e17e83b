"""Whether the event loop makes the rounds itself.

Handing operations over to the committer's thread, and their outcomes back, wakes two threads a
round, and each then waits for Python's lock. While rounds are fast, the event loop makes them
itself and saves that. Slow rounds would hold up the requests that need no disk: then the thread
makes them, until they are fast again.
"""

from __future__ import annotations

FAST_ROUND_SECONDS = 0.01
"""The event loop makes a round if the last ones took no longer than this on average."""

_WEIGHT = 1 / 16
"""How much the last round counts in the average."""


class FastRounds:
    """Knows how long the last rounds took. The first ones count as slow."""

    def __init__(self) -> None:
        self._mean_seconds = 2 * FAST_ROUND_SECONDS

    def note(self, seconds: float) -> None:
        """Note how long a round took."""
        self._mean_seconds += _WEIGHT * (seconds - self._mean_seconds)

    def are_usual(self) -> bool:
        return self._mean_seconds <= FAST_ROUND_SECONDS
