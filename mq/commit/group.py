"""Group commit: one barrier serves all operations that wait.

What is asked for in one turn of the event loop reaches the committer together. It takes all pending
operations as a round (`mq.commit.rounds`) and wakes the event loop once. While a barrier runs, the
next round gathers; only beside other servers does it wait for more (`mq.commit.gathering`). While
rounds are fast and the thread is idle, the event loop makes the round itself
(`mq.commit.loop_rounds`), pauses included.

After a failed barrier the committer refuses everything until it has reopened and swept the store,
which it tries again and again, with backoff.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

import structlog

from mq.commit import awaited
from mq.commit.arrivals import Arrivals
from mq.commit.barrier import Barrier, Unsynced
from mq.commit.engine import Engine
from mq.commit.fast_rounds import FastRounds
from mq.commit.gathering import Gathering
from mq.commit.loop_rounds import LoopRounds
from mq.commit.operation import Operation, Submitted, requests_of
from mq.commit.rounds import Rounds
from mq.commit.turns import Turns
from mq.config import (
    MAX_PENDING_OPERATIONS,
    MAX_ROUND_OPERATIONS,
    RECOVERY_BACKOFF_SECONDS,
)
from mq.errors import StoreUnavailable
from mq.lifecycle import FIXED_FOLDERS

log = structlog.get_logger(__name__)

T = TypeVar("T")

_ENDS = "the server stops; try again"


class GroupCommitter:
    """The committer of a root on stable media, with a thread of its own.

    `begin_round` is called before each round, and `end_calls` whenever its operations have done
    file calls. `recover` reopens the store and sweeps it after a failed barrier, and raises OSError
    while that does not work. `gathering` says how long a round waits for more operations; without
    it, no round waits. With `fast_rounds` the event loop makes rounds while they are fast.

    Rounds belong to the thread that holds `_at_work`: the event loop while it makes them, else the
    committer's.
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
        self._barrier = barrier
        self._recover = recover
        self._gathering = gathering
        self._loop = asyncio.get_running_loop()
        self._engine = engine = Engine(workers, self._come_back)
        self._rounds = rounds = Rounds(engine, barrier, begin_round, end_calls, self._expect)
        self._loop_rounds: LoopRounds | None = None
        if fast_rounds is not None:
            self._loop_rounds = LoopRounds(
                rounds,
                engine,
                barrier,
                fast_rounds,
                has_failed=self._has_failed,
                leave=self._leave,
            )
        self.stats = rounds.stats
        self._arrivals = Arrivals(engine)
        self._turns = Turns(self._hand_over, self._is_for_thread, gathering)
        self._reopened_after = 0
        self._failure: str | None = None
        self._is_thread_ready = False
        self._has_defect = False
        self._stopping = threading.Event()
        self._at_work = threading.Lock()
        self._at_work.acquire()  # The thread holds it except while it waits for a turn.
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
        return await awaited.run(self, operation, abandoned)

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        return await awaited.call(self, function, *arguments)

    def submit(self, submitted: Submitted) -> None:
        failure = _ENDS if self._arrivals.is_ending else self._failure
        if (
            failure is None
            and self._arrivals.waiting() + self._engine.away >= MAX_PENDING_OPERATIONS
        ):
            failure = "too many requests wait for the disk; try again later"
        if failure is not None:
            self._loop.call_soon(submitted.done, None, StoreUnavailable(failure))
            return
        self._turns.add(submitted)
        self._arrivals.count(submitted)

    def submit_later(self, submit: Callable[[], None]) -> None:
        self._turns.add_later(submit)

    def _is_for_thread(self) -> bool:
        """Whether operations go to the thread, or to a round whose barrier is in flight."""
        rounds = self._loop_rounds
        return rounds is None or rounds.is_flying or not rounds.are_fast()

    def _hand_over(self, turn: list[Submitted]) -> None:
        """Hand operations over once in a turn of the event loop, so that the thread is woken once
        and finds all of them."""
        if turn and not self._commit_here(turn):
            self._arrivals.put(turn)
        if self._has_defect:
            self._refuse_pending()

    def _commit_here(self, turn: list[Submitted]) -> bool:
        """Make a round on the event loop, and tell the callers of its operations. Returns False if
        that is up to the thread."""
        rounds = self._loop_rounds
        if rounds is None or not rounds.are_fast():
            return False
        if self._is_thread_wanted() or self._has_failed():
            return False
        if len(self._rounds.unsynced) + len(turn) > MAX_ROUND_OPERATIONS:
            return False
        if not rounds.is_flying and not self._come_to_work():
            return False
        rounds.make(self._arrivals.take_at_once(turn))
        return True

    def _come_to_work(self) -> bool:
        """Let the event loop make rounds, if the thread makes none."""
        if not self._at_work.acquire(blocking=False):
            return False
        if self._arrivals.is_ended or self._is_thread_wanted() or self._has_failed():
            self._at_work.release()
            return False
        return True

    def _is_thread_wanted(self) -> bool:
        """Whether something waits for the thread, or the thread waits for the event loop to
        leave."""
        return self._is_thread_ready or self._arrivals.has_turn()

    def _leave(self) -> None:
        """Let the thread work: the event loop has nothing under way any more."""
        self._at_work.release()
        if self._has_failed():
            self._arrivals.put([])  # The thread sees to it.

    def _come_back(self, submitted: Submitted) -> None:
        """Take back an operation whose wait is over. Any thread may call it."""
        self._arrivals.put([submitted])
        if self._has_defect:
            self._loop.call_soon_threadsafe(self._refuse_pending)

    async def close(self) -> None:
        self._stopping.set()
        self._turns.hand_over()
        self._arrivals.end()
        await asyncio.to_thread(self._thread.join)
        if self._loop_rounds is not None:
            await asyncio.to_thread(self._loop_rounds.close)
        self._barrier.close()

    def _run(self) -> None:
        try:
            while (taken := self._take()) is not None:
                self._go_on_with(taken)
        except BaseException:
            log.exception("the committer ended by a defect")
            self._failure = "the server has a defect and must be restarted"
            self._has_defect = True
            self._engine.note_failed_barrier(self._failure)
            # This runs on the event loop, where no operation can be handed over between its look
            # and its end.
            self._loop.call_soon_threadsafe(self._end_by_defect)

    def _go_on_with(self, taken: list[Submitted]) -> None:
        """Make a round, and see to what has failed in it, or in a round of the event loop."""
        if not self._has_failed():
            self._make_round(taken)
        if self._loop_rounds is not None and self._loop_rounds.defect is not None:
            raise self._loop_rounds.defect
        if self._has_failed():
            self._reopen()
            self._reopened_after = self._engine.failed_barriers

    def _make_round(self, taken: list[Submitted]) -> None:
        rounds = self._rounds if self._loop_rounds is None else self._loop_rounds
        rounds.commit(taken)
        self._rounds.taken = []
        self._rounds.tell()

    def _expect(self, requests: int) -> None:
        """Note how many requests a round had, for the next."""
        if self._gathering is not None:
            waiting = requests_of(self._rounds.unsynced) + self._arrivals.waiting()
            waiting += self._turns.later()
            self._gathering.expect(requests + waiting)

    def _has_failed(self) -> bool:
        """Whether the thread must see to something before there is another round."""
        if self._engine.failed_barriers != self._reopened_after:
            return True
        return self._loop_rounds is not None and self._loop_rounds.defect is not None

    def _take(self) -> list[Submitted] | None:
        """Return all operations that can go on, up to the limit. Waits for the first, unless some
        are at their next barrier already. Returns None when all is over."""
        most = MAX_ROUND_OPERATIONS - len(self._rounds.unsynced)
        taken = self._arrivals.take(most)
        while not (taken or self._rounds.unsynced):
            if self._arrivals.is_ended and not self._engine.away:
                return None
            self._wait_for_turn()
            if self._has_failed():
                break
            taken = self._arrivals.take(most)
        return taken

    def _wait_for_turn(self) -> None:
        self._at_work.release()
        try:
            turn = self._arrivals.wait()
        finally:
            self._is_thread_ready = True
            self._at_work.acquire()
            self._is_thread_ready = False
        self._arrivals.admit(turn)
        if turn is not None and self._gathering is not None:
            self._gathering.wait(self._arrivals.waiting)

    def _reopen(self) -> None:
        """Refuse everything until the store has been reopened and swept."""
        self._failure = self._engine.why_failed
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
        in_flight = [] if self._loop_rounds is None else self._loop_rounds.in_flight
        self._refuse(self._rounds.taken + in_flight + self._rounds.unsynced)
        self._refuse_pending()

    def _refuse_pending(self) -> None:
        self._refuse(self._arrivals.take_all())

    def _refuse(self, refused: list[Submitted]) -> None:
        assert self._failure is not None
        self._rounds.refuse(refused, self._failure)
