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

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor

import structlog

from mq.commit.barrier import Barrier, Unsynced
from mq.commit.engine import Engine
from mq.commit.operation import Submitted, requests_of, tell
from mq.errors import StoreUnavailable

log = structlog.get_logger(__name__)


class Rounds(Engine):
    """Commits rounds, on one thread at a time. `begin_round` is called before each, and `end_calls`
    whenever its operations have done file calls."""

    def __init__(
        self,
        barrier: Barrier,
        begin_round: Callable[[], None],
        end_calls: Callable[[], None],
        workers: Executor,
    ) -> None:
        super().__init__(end_calls, workers)
        self._barrier = barrier
        self._begin_round = begin_round
        self._round: list[Submitted] = []
        self._unsynced: list[Submitted] = []
        self._failure: str | None = None
        self._why_failed = ""

    @property
    def failure(self) -> str | None:
        return self._failure

    def _commit(self, taken: list[Submitted]) -> None:
        """Commit a round. `_tell` is to follow."""
        started, carried = time.perf_counter(), requests_of(self._unsynced)
        self._begin(taken)
        if self._unsynced:
            self._pass_barrier(self._unsynced)
            unsynced, self._unsynced = self._unsynced, []
            self._go_past(unsynced)
        self._note(started, carried + requests_of(taken))

    def _begin(self, taken: list[Submitted]) -> None:
        """Run operations to their barrier."""
        self._round = taken
        self._begin_round()
        self._unsynced += self._advance(taken)
        self._let_go()

    def _go_past(self, passed: list[Submitted]) -> None:
        """Run operations on behind a barrier, whether it was passed or has failed."""
        self._unsynced += self._advance(passed)
        self._let_go()

    def _note(self, started: float, requests: int) -> None:
        """Count a round that began at `started`, by `perf_counter`, for that many requests."""
        self.stats.durations.observe(time.perf_counter() - started)
        self.stats.operations.observe(requests)

    def _let_go(self) -> None:
        self._end_calls()
        if self._leaving:
            self._send_away()

    def _go_on(self, each: Submitted) -> None:
        super()._go_on(each)
        self._refuse_late(each)

    def _refuse_late(self, each: Submitted) -> None:
        """Refuse an operation that was under way when a barrier failed, like those at that
        barrier."""
        if each.failed_barriers != self._failed_barriers:
            each.failure = StoreUnavailable(self._why_failed)

    def _pass_barrier(self, unsynced: list[Submitted]) -> None:
        """Issue one barrier for all. If it fails, that error is raised at the `yield` of each."""
        try:
            self._barrier.make_durable(needs_of(unsynced))
        except OSError as error:
            self._fail(unsynced, error)

    def _fail(self, unsynced: list[Submitted], error: OSError) -> None:
        """Refuse operations at the barrier that has failed."""
        log.error("sync failed", error=str(error), operations=len(unsynced))
        self._failed_barriers += 1
        self._why_failed = (
            f"the store could not be synced ({error.strerror}); the outcome is unknown; try again"
        )
        for each in unsynced:
            each.failure = StoreUnavailable(self._why_failed)

    def _refuse(self, refused: Iterable[Submitted]) -> None:
        """Raise StoreUnavailable in operations at their `yield`. If one needs a barrier after that,
        it has none."""
        assert self._failure is not None
        left = [each for each in dict.fromkeys(refused) if not each.is_over]
        while left:
            for each in left:
                each.failure = StoreUnavailable(self._failure)
            left = self._advance(left)
        self._send_away()
        self._tell()

    def _tell(self) -> None:
        """Tell the callers of operations that are over."""
        ended, self._ended = self._ended, []
        if ended:
            self._loop.call_soon_threadsafe(tell_each, ended)


def needs_of(unsynced: Iterable[Submitted]) -> list[Unsynced]:
    """Return what the barrier of these operations is to make durable."""
    return [each.need for each in unsynced if isinstance(each.need, Unsynced)]


def tell_each(ended: list[Submitted]) -> None:
    for each in ended:
        tell(each.done, each.result, each.error)
