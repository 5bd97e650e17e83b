"""Group commit: one barrier serves all operations that wait.

What is asked for in one turn of the event loop reaches the committer together, which takes all
pending operations as a round (`mq.commit.rounds`) and wakes the event loop once. It does not
linger, except beside other servers (`mq.commit.gathering`): while a barrier runs, the next round
gathers. While rounds are fast and the thread is idle, the event loop makes the round itself
(`mq.commit.loop_rounds`), pauses included.

After a failed barrier the committer refuses everything while it reopens the store and sweeps, with
backoff, and goes on by itself.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

import structlog

from mq.commit.barrier import Barrier, Unsynced
from mq.commit.engine import outcome, settle
from mq.commit.fast_rounds import FastRounds
from mq.commit.gathering import Gathering
from mq.commit.loop_rounds import LoopRounds
from mq.commit.operation import Operation, Submitted, requests_of
from mq.config import (
    MAX_PENDING_OPERATIONS,
    MAX_ROUND_OPERATIONS,
    RECOVERY_BACKOFF_SECONDS,
)
from mq.errors import StoreUnavailable
from mq.lifecycle import FIXED_FOLDERS

log = structlog.get_logger(__name__)

T = TypeVar("T")


class GroupCommitter(LoopRounds):
    """The committer of a root on stable media, with a thread of its own.

    `begin_round` is called before each round, and `end_calls` whenever its operations have done
    file calls. `recover` reopens the store and sweeps it after a failed barrier, and raises OSError
    while that does not work. `gathering` says how long a round waits for more operations; without
    it none does. With `fast_rounds` the event loop makes rounds while they are fast.
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
        fast_rounds: FastRounds | None = None,
    ) -> None:
        super().__init__(barrier, begin_round, end_calls, workers, fast_rounds)
        self._gathering = gathering
        self._recover = recover
        self._turn: list[Submitted] = []
        self._pending: queue.SimpleQueue[list[Submitted] | None] = queue.SimpleQueue()
        self._handed_over: deque[Submitted] = deque()
        self._submitted = self._taken = 0
        self._reopened_after = 0
        self._is_thread_ready = False
        self._has_defect = False
        self._is_closing = False
        self._stopping = threading.Event()
        self._at_work.acquire()  # The thread holds it except while it waits for a turn.
        self._thread = threading.Thread(target=self._run, name="committer")
        self._start()

    def _start(self) -> None:
        self._thread.start()

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
            self._loop.call_soon(self._end_turn)
        self._turn.append(submitted)
        self._submitted += submitted.requests

    def _waiting(self) -> int:
        """Return how many requests no round has taken yet. Any thread may call it."""
        return self._submitted - self._taken

    def _end_turn(self) -> None:
        """Let the event loop look at its sockets once more before a round of its own: what came
        during the last one joins. Beside other servers it looks after each pause. While a barrier
        is in flight, what comes gathers anyway."""
        if self._is_flying or not self._are_rounds_fast():
            self._hand_over()
        elif self._gathering is None:
            self._loop.call_soon(self._hand_over)
        else:
            self._loop.call_soon(
                self._gather, self._gathering.pauses(lambda: requests_of(self._turn))
            )

    def _gather(self, pauses: Iterator[None]) -> None:
        """Make the next of these pauses, or hand over when they are over."""
        for _ in pauses:
            self._loop.call_soon(self._gather, pauses)
            return
        self._hand_over()

    def _hand_over(self) -> None:
        """Hand operations over once in a turn of the event loop, so that the thread is woken once
        and finds all of them."""
        turn, self._turn = self._turn, []
        if turn and not self._commit_here(turn):
            self._pending.put(turn)
        if self._has_defect:
            self._refuse_pending()

    def _commit_here(self, turn: list[Submitted]) -> bool:
        """Make a round on the event loop, and tell the callers of its operations. Returns False if
        that is up to the thread."""
        if not self._are_rounds_fast() or self._is_thread_wanted() or self._has_failed():
            return False
        if len(self._unsynced) + len(turn) > MAX_ROUND_OPERATIONS:
            return False
        if not self._is_flying and not self._come_to_work():
            return False
        self._handed_over.extend(turn)
        self._make_round([self._take_one() for _ in turn])
        return True

    def _come_to_work(self) -> bool:
        """Let the event loop make rounds, if the thread makes none."""
        if not self._at_work.acquire(blocking=False):
            return False
        if self._is_closing or self._is_thread_wanted() or self._has_failed():
            self._at_work.release()
            return False
        return True

    def _is_thread_wanted(self) -> bool:
        """Whether something waits for the thread, or that waits for the event loop to leave."""
        return self._is_thread_ready or not self._pending.empty()

    def _leave(self) -> None:
        self._at_work.release()
        if self._has_failed():
            self._pending.put([])  # The thread sees to it.

    def _come_back(self, submitted: Submitted) -> None:
        self._pending.put([submitted])
        if self._has_defect:
            self._loop.call_soon_threadsafe(self._refuse_pending)

    async def close(self) -> None:
        self._stopping.set()
        self._hand_over()
        self._pending.put(None)
        await asyncio.to_thread(self._thread.join)
        if self._barriers is not None:
            await asyncio.to_thread(self._barriers.close)
        self._barrier.close()

    def _run(self) -> None:
        try:
            while (taken := self._take()) is not None:
                self._go_on_with(taken)
        except BaseException:
            log.exception("the committer ended by a defect")
            self._why_failed = self._failure = "the server has a defect and must be restarted"
            self._has_defect, self._failed_barriers = True, self._failed_barriers + 1
            # This runs on the event loop, where no operation can be handed over between its look
            # and its end.
            self._loop.call_soon_threadsafe(self._end_by_defect)

    def _go_on_with(self, taken: list[Submitted]) -> None:
        """Make a round, and see to what has failed in it, or in a round of the event loop."""
        if not self._has_failed():
            self._run_round(taken)
            self._tell()
        if self._defect is not None:
            raise self._defect
        if self._has_failed():
            self._reopen()
            self._reopened_after = self._failed_barriers

    def _run_round(self, taken: list[Submitted]) -> None:
        self._commit(taken)
        self._round = []

    def _note(self, started: float, requests: int) -> None:
        super()._note(started, requests)
        if self._gathering is not None:
            self._gathering.expect(requests + requests_of(self._unsynced) + self._waiting())

    def _has_failed(self) -> bool:
        """Whether the thread must see to something before there is another round."""
        return self._defect is not None or self._failed_barriers != self._reopened_after

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
                turn = self._wait_for_turn() if is_idle else self._pending.get_nowait()
            except queue.Empty:
                break
            if turn is None:
                self._is_closing = True
            else:
                self._handed_over.extend(turn)
                if is_idle and self._gathering is not None:
                    self._gathering.wait(self._waiting)
            if is_idle and self._has_failed():
                break
        return taken

    def _wait_for_turn(self) -> list[Submitted] | None:
        self._at_work.release()
        try:
            return self._pending.get()
        finally:
            self._is_thread_ready = True
            self._at_work.acquire()
            self._is_thread_ready = False

    def _take_one(self) -> Submitted:
        each = self._handed_over.popleft()
        if each.need is None:
            self._taken += each.requests
        else:
            self._away -= 1
            self._refuse_late(each)
        return each

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
        self._refuse(self._round + self._in_flight + self._unsynced)
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
