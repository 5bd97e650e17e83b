"""Group commit: one barrier serves all operations that wait.

What is asked for in one turn of the event loop reaches the committer together. It takes all pending
operations as a round: runs each up to its barrier, issues one barrier for all, runs them on, and
wakes the event loop once. It does not linger, except beside other servers (`mq.commit.gathering`):
while a barrier runs, the next round gathers. What an operation needs besides a barrier (a worker, a
pause) is done meanwhile, and the operation joins the round after that.

A failed barrier fails its whole round: StoreUnavailable is raised at each `yield`, where the
operation takes back the name it made. The committer then refuses everything while it reopens the
store and sweeps, with backoff, and goes on by itself. It also refuses operations that were under
way when the barrier failed, at the `yield` at which they come back. A sync is never tried again for
the same data: after an error the kernel may have marked the pages clean (fsync(2), and Rebello et
al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020).
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

import structlog

from mq.commit.barrier import Barrier, Unsynced
from mq.commit.engine import Engine, outcome, settle
from mq.commit.gathering import Gathering
from mq.commit.operation import Operation, Submitted
from mq.config import (
    MAX_PENDING_OPERATIONS,
    MAX_ROUND_OPERATIONS,
    RECOVERY_BACKOFF_SECONDS,
)
from mq.errors import StoreUnavailable
from mq.lifecycle import FIXED_FOLDERS

log = structlog.get_logger(__name__)

T = TypeVar("T")


class GroupCommitter(Engine):
    """The committer thread of a root on stable media.

    `begin_round` is called before each round, and `end_calls` whenever its operations have done
    file calls. `recover` reopens the store and sweeps it after a failed barrier, and raises OSError
    while that does not work. `gathering` says how long a round waits for more operations; without
    it none does.
    """

    def __init__(
        self,
        barrier: Barrier,
        begin_round: Callable[[], None],
        end_calls: Callable[[], None],
        recover: Callable[[], None],
        workers: Executor,
        *,
        gathering: Gathering | None = None,
    ) -> None:
        super().__init__(end_calls, workers)
        self._barrier = barrier
        self._gathering = gathering
        self._begin_round = begin_round
        self._recover = recover
        self._turn: list[Submitted] = []
        self._pending: queue.SimpleQueue[list[Submitted] | None] = queue.SimpleQueue()
        self._handed_over: deque[Submitted] = deque()
        self._round: list[Submitted] = []
        self._unsynced: list[Submitted] = []
        self._submitted = self._taken = 0
        self._failure: str | None = None
        self._why_failed = ""
        self._has_defect = False
        self._is_closing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="committer")
        self._start()

    def _start(self) -> None:
        self._thread.start()

    @property
    def failure(self) -> str | None:
        return self._failure

    def is_alive(self) -> bool:
        return not self._has_defect and self._thread.is_alive()

    async def run(self, operation: Operation[T], abandoned: Callable[[T], None] | None = None) -> T:
        future: asyncio.Future[T] = self._loop.create_future()
        self.submit(Submitted(operation, partial(settle, future, abandoned)))
        return await outcome(future, abandoned)

    def submit(self, submitted: Submitted) -> None:
        failure = self._failure
        if failure is None and self._waiting() + self._away >= MAX_PENDING_OPERATIONS:
            failure = "too many requests wait for the disk; try again later"
        if failure is not None:
            self._loop.call_soon(submitted.done, None, StoreUnavailable(failure))
            return
        if not self._turn:
            self._loop.call_soon(self._hand_over)
        self._turn.append(submitted)
        self._submitted += 1

    def _waiting(self) -> int:
        """Return how many operations no round has taken yet. Any thread may call it."""
        return self._submitted - self._taken

    def _hand_over(self) -> None:
        """Hand operations over once in a turn of the event loop, so that the thread is woken once
        and finds all of them."""
        turn, self._turn = self._turn, []
        if turn:
            self._pending.put(turn)
        if self._has_defect:
            self._refuse_pending()

    def _come_back(self, submitted: Submitted) -> None:
        self._pending.put([submitted])
        if self._has_defect:
            self._loop.call_soon_threadsafe(self._refuse_pending)

    async def close(self) -> None:
        self._stopping.set()
        self._hand_over()
        self._pending.put(None)
        await asyncio.to_thread(self._thread.join)
        self._barrier.close()

    def _run(self) -> None:
        try:
            while (taken := self._take()) is not None:
                self._run_round(taken)
        except BaseException:
            log.exception("the committer ended by a defect")
            self._why_failed = self._failure = "the server has a defect and must be restarted"
            self._has_defect, self._failed_barriers = True, self._failed_barriers + 1
            # This runs on the event loop, where no operation can be handed over between its look
            # and its end.
            self._loop.call_soon_threadsafe(self._end_by_defect)

    def _run_round(self, taken: list[Submitted]) -> None:
        """Commit a round, and tell the callers of operations that are over."""
        self._round = taken
        started, carried = time.perf_counter(), len(self._unsynced)
        failed_before = self._failed_barriers
        self._begin_round()
        self._unsynced += self._advance(taken)
        self._let_go()
        if self._unsynced:
            self._pass_barrier(self._unsynced)
            self._unsynced = self._advance(self._unsynced)
            self._let_go()
        self.stats.durations.observe(time.perf_counter() - started)
        self.stats.operations.observe(carried + len(taken))
        if self._gathering is not None:
            self._gathering.expect(len(taken) + self._waiting())
        self._tell()
        self._round = []
        if self._failed_barriers != failed_before:
            self._reopen()

    def _let_go(self) -> None:
        self._end_calls()
        if self._leaving:
            self._send_away()

    def _take(self) -> list[Submitted] | None:
        """Return all operations that can go on, up to the limit. Waits for the first, unless some
        are at their next barrier already. Returns None when all is over."""
        taken: list[Submitted] = []
        carried = len(self._unsynced)
        while carried + len(taken) < MAX_ROUND_OPERATIONS:
            if self._handed_over:
                taken.append(self._take_one())
                continue
            is_idle = not (carried or taken)
            if is_idle and self._is_closing and not self._away:
                return None
            try:
                turn = self._pending.get(block=is_idle)
            except queue.Empty:
                break
            if turn is None:
                self._is_closing = True
            else:
                self._handed_over.extend(turn)
                if is_idle and self._gathering is not None:
                    self._gathering.wait(self._waiting)
        return taken

    def _take_one(self) -> Submitted:
        each = self._handed_over.popleft()
        if each.need is None:
            self._taken += 1
        else:
            self._away -= 1
            self._refuse_late(each)
        return each

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

    def _reopen(self) -> None:
        """Refuse everything until the store has been reopened and swept."""
        self._failure = self._why_failed
        pause, longest = RECOVERY_BACKOFF_SECONDS
        while not self._stopping.is_set():
            self._refuse_pending()
            try:
                self._barrier.reopen()
                self._recover()
                self._barrier.make_durable([Unsynced((), FIXED_FOLDERS)])
                break
            except OSError as error:
                log.error("store not reopened yet", error=str(error))
                self._stopping.wait(pause)
                pause = min(2 * pause, longest)
        else:
            self._refuse_pending()
            return
        log.warning("store reopened")
        self._failure = None

    def _end_by_defect(self) -> None:
        self._refuse(self._round + self._unsynced)
        self._refuse_pending()

    def _refuse_pending(self) -> None:
        refused: list[Submitted] = []
        while not self._pending.empty():
            turn = self._pending.get()
            if turn is None:
                self._is_closing = True
            else:
                self._handed_over.extend(turn)
        while self._handed_over:
            refused.append(self._take_one())
        self._refuse(refused)

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
        ended, self._ended = self._ended, []
        if ended:
            self._loop.call_soon_threadsafe(_tell_each, ended)


def _tell_each(ended: list[Submitted]) -> None:
    for each in ended:
        try:
            each.done(each.result, each.error)
        except Exception:
            # The other callers of the round are still to be told.
            log.exception("the end of an operation could not be told")
