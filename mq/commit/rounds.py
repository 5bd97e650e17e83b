"""A round: one barrier serves all of its operations.

A round runs each operation up to its barrier, issues one barrier for all, and runs them on. What an
operation needs besides a barrier (a worker, a pause) is done meanwhile, and the operation joins the
round after that.

A failed barrier fails its whole round: StoreUnavailable is raised at each `yield`, where the
operation takes back the name it made. An operation that was under way elsewhere when the barrier
failed is refused at the `yield` at which it comes back. A sync is never tried again for the same
data: after an error the kernel may have marked the pages clean (fsync(2), and Rebello et al., "Can
Applications Recover from fsync Failures?", USENIX ATC 2020).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from operator import attrgetter

import structlog

from mq.commit.barrier import Barrier, Unsynced
from mq.commit.engine import Engine
from mq.commit.operation import Submitted, tell_each
from mq.errors import StoreUnavailable
from mq.metrics.histogram import CommitStats

MAX_ROUND_OPERATIONS = 512
"""How many operations share one barrier."""

log = structlog.get_logger(__name__)

_MESSAGES = attrgetter("need.messages")
"""How many messages an operation brings to its barrier."""


class Rounds:
    """Commits rounds, on one thread at a time. `begin_round` is called before each, `end_calls`
    whenever its operations have done file calls: one that waits holds no queue. `noted` is told how
    many requests each round had.

    `taken` are the operations that began in the round under way or went on in it, `unsynced` those
    at their barrier.
    """

    def __init__(
        self,
        engine: Engine,
        barrier: Barrier,
        begin_round: Callable[[], None],
        end_calls: Callable[[], None],
        noted: Callable[[int], None],
    ) -> None:
        self._engine = engine
        self._barrier = barrier
        self._begin_round = begin_round
        self._end_calls = end_calls
        self._noted = noted
        self._loop = asyncio.get_running_loop()
        self.stats = CommitStats()
        self.taken: list[Submitted] = []
        self.unsynced: list[Submitted] = []

    def count_messages(self) -> int:
        """Return how many messages are at their barrier."""
        return sum(map(_MESSAGES, self.unsynced))

    def begin(self, taken: list[Submitted]) -> None:
        """Run operations to their barrier."""
        self.taken = taken
        self._begin_round()
        self.go_on(taken)

    def go_on(self, ready: list[Submitted]) -> None:
        """Run operations to their next barrier: new ones, or those whose last one was passed or has
        failed."""
        self.unsynced += self._engine.advance(ready)
        self._end_calls()
        self._engine.send_away()

    def pass_barrier(self) -> None:
        """Issue one barrier for all that have reached theirs, and run them on."""
        unsynced = self.unsynced
        try:
            self._barrier.make_durable(needs_of(unsynced))
        except OSError as error:
            self.fail(unsynced, error)
        self.unsynced = []
        self.go_on(unsynced)

    def fail(self, unsynced: list[Submitted], error: OSError) -> None:
        """Refuse operations at the barrier that has failed: that error is raised at the `yield` of
        each."""
        log.error("sync failed", error=str(error), operations=len(unsynced))
        why = f"the store could not be synced ({error.strerror}); the outcome is unknown; try again"
        self._engine.note_failed_barrier(why)
        for each in unsynced:
            each.failure = StoreUnavailable(why)

    def note(self, started: float, requests: int) -> None:
        """Count a round that began at `started`, by `perf_counter`, for that many requests."""
        self.stats.durations.observe(time.perf_counter() - started)
        self.stats.requests.observe(requests)
        self._noted(requests)

    def refuse(self, refused: Iterable[Submitted], why: str) -> None:
        """Raise StoreUnavailable in operations at their `yield`, and again if one then asks for a
        barrier."""
        left = [each for each in dict.fromkeys(refused) if not each.is_over]
        while left:
            for each in left:
                each.failure = StoreUnavailable(why)
            left = self._engine.advance(left)
        self._engine.send_away()
        self.tell()

    def tell(self) -> None:
        """Tell the callers of operations that are over, from any thread."""
        ended = self._engine.take_ended()
        if ended:
            self._loop.call_soon_threadsafe(tell_each, ended)


def needs_of(unsynced: Iterable[Submitted]) -> list[Unsynced]:
    """Return what the barrier of these operations is to make durable."""
    return [each.need for each in unsynced if isinstance(each.need, Unsynced)]
