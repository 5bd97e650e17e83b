"""Whether the event loop makes the rounds itself.

Handing operations over to the committer's thread, and their outcomes back, wakes two threads a
round, and each then waits for Python's lock. While rounds are light, the event loop makes them
itself and saves that. Slow rounds would hold up the requests that need no disk. Those of batches
leave enough to do for two threads: one makes their file calls while the other writes answers.
"""

from __future__ import annotations

FAST_ROUND_SECONDS = 0.01
"""Rounds are light if the last ones took no longer than this on average."""

BATCH_MESSAGES = 32
"""Rounds are not light if their requests had more messages than this on average."""

FEW_MESSAGES = 64
"""The thread that makes a round passes the barrier of up to this many messages itself."""

_WEIGHT = 1 / 16
"""How much the last round counts in the averages."""


class LightRounds:
    """Knows how long the last rounds took, and how large their requests were. The first ones count
    as slow."""

    def __init__(self) -> None:
        self._mean_seconds = 2 * FAST_ROUND_SECONDS
        self._mean_messages = 1.0

    def note(self, seconds: float) -> None:
        """Note how long a round kept its thread."""
        self._mean_seconds += _WEIGHT * (seconds - self._mean_seconds)

    def note_size(self, messages: int, requests: int) -> None:
        """Note how many messages and requests were at the barrier of a round."""
        if requests:
            self._mean_messages += _WEIGHT * (messages / requests - self._mean_messages)

    def are_usual(self) -> bool:
        is_fast = self._mean_seconds <= FAST_ROUND_SECONDS
        return is_fast and self._mean_messages <= BATCH_MESSAGES
