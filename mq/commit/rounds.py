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
from mq.commit.operation import Submitted
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

    def _commit(self, taken: list[Submitted]) -> float:
        """Commit a round, and return its time in seconds. `_tell` is to follow."""
        self._round = taken
        started, carried = time.perf_counter(), len(self._unsynced)
        self._begin_round()
        self._unsynced += self._advance(taken)
        self._let_go()
        if self._unsynced:
            self._pass_barrier(self._unsynced)
            self._unsynced = self._advance(self._unsynced)
            self._let_go()
        seconds = time.perf_counter() - started
        self.stats.durations.observe(seconds)
        self.stats.operations.observe(carried + len(taken))
        return seconds

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
            self._barrier.make_durable(
                [each.need for each in unsynced if isinstance(each.need, Unsynced)]
            )
        except OSError as error:
            log.error("sync failed", error=str(error), operations=len(unsynced))
            self._failed_barriers += 1
            self._why_failed = (
                f"the store could not be synced ({error.strerror}); "
                "the outcome is unknown; try again"
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


def tell_each(ended: list[Submitted]) -> None:
    for each in ended:
        try:
            each.done(each.result, each.error)
        except Exception:
            # The other callers of the round are still to be told.
            log.exception("the end of an operation could not be told")
