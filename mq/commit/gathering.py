"""How long a round waits for the rest of its operations.

Clients whose requests were answered by one round send their next ones while the next round is under
way. So a server alone works on one half of its clients while the other half waits for the disk, and
loses nothing by beginning each round as soon as its sockets bring no more. Several servers compete
for the disk and the processors: each small round takes a sync, and another server could have had
that time. There a round waits until all clients are back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from mq.commit.rounds import MAX_ROUND_OPERATIONS

GATHERING_PAUSE_SECONDS = 0.0003
MAX_GATHERING_PAUSES = 5
"""Beside other servers a round waits as long as more operations come, in pauses of this length, at
most this many."""


_FEW = 3
"""With fewer requests than that in one turn of the event loop nobody else is expected."""


def is_growing(before: int, here: int) -> bool:
    """Return whether the event loop should look at its sockets once more before a round, after a
    look that brought the requests from `before` to `here`: those that share a round cost less, and
    clients that were answered together are just sending their next ones."""
    return before < here and _FEW <= here < MAX_ROUND_OPERATIONS


class Gathering:
    """Decides when the operations of a round are complete."""

    def __init__(self, pause: Callable[[float], None] = time.sleep) -> None:
        self._pause = pause
        self._expected = self._last = 0

    def expect(self, operations: int) -> None:
        """Note at the end of a round how many operations it had, with those that wait already. The
        larger of the last two rounds tells how many clients are at work, as each sends its next
        request once it is answered: one round that some of them missed does not lead to small
        ones."""
        self._expected, self._last = max(operations, self._last), operations

    def pauses(self, count: Callable[[], int]) -> Iterator[None]:
        """Pause before a round, and yield after each pause, until `count` says that the expected
        operations have come, or that none came during one pause, and at most MAX_GATHERING_PAUSES
        times. A lone client never waits."""
        here = count()
        for _ in range(MAX_GATHERING_PAUSES):
            if here >= self._expected:
                return
            self._pause(GATHERING_PAUSE_SECONDS)
            yield
            before, here = here, count()
            if here == before:
                return

    def wait(self, count: Callable[[], int]) -> None:
        """Make all pauses, on a thread that does nothing else."""
        for _ in self.pauses(count):
            pass
