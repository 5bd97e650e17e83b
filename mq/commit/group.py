"""Group commit: one barrier serves all operations that wait.

What is asked for in one turn of the event loop reaches the committer together. It takes all pending
operations as a round (`mq.commit.pipelined_rounds`) and wakes the event loop once. While a barrier
runs, the next round gathers; only beside other servers does it wait for more
(`mq.commit.gathering`). While rounds are light and the thread is idle, the event loop makes the
round itself (`mq.commit.loop_rounds`), pauses included.

After a failed barrier the committer refuses everything until it has reopened and swept the store,
which it tries again and again, with backoff.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

import structlog

from mq.commit import awaited
from mq.commit.arrivals import MAX_PENDING_OPERATIONS, Arrivals
from mq.commit.barrier import Barrier
from mq.commit.barrier_thread import BarrierThread
from mq.commit.engine import Engine
from mq.commit.gathering import Gathering
from mq.commit.light_rounds import FEW_MESSAGES, LightRounds
from mq.commit.loop_rounds import LoopRounds
from mq.commit.operation import Operation, Submitted, requests_of
from mq.commit.pipelined_rounds import PipelinedRounds
from mq.commit.reopening import Reopening
from mq.commit.rounds import MAX_ROUND_OPERATIONS, Rounds
from mq.commit.turns import Turns
from mq.errors import StoreUnavailable

log = structlog.get_logger(__name__)

T = TypeVar("T")

_ENDS = "the server stops; try again"


class GroupCommitter:
    """The committer of a root on stable media, with a thread of its own.

    `begin_round` is called before each round, and `end_calls` whenever its operations have done
    file calls. `recover` reopens the store and sweeps it after a failed barrier, and raises OSError
    while that does not work. `gathering` says how long a round waits for more operations; without
    it, no round waits. With `light_rounds` the event loop makes rounds while they are light, and
    barriers of others are passed beside the next round.

    Rounds belong to the thread that holds `_at_work`: the event loop while it makes one, else the
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
        light_rounds: LightRounds | None = None,
    ) -> None:
        self._barrier = barrier
        self._reopening = Reopening(barrier, recover)
        self._gathering = gathering
        self._loop = asyncio.get_running_loop()
        self._engine = engine = Engine(workers, self._come_back)
        self._rounds = rounds = Rounds(engine, barrier, begin_round, end_calls, self._expect)
        self._light_rounds = light_rounds
        self._barriers = None if light_rounds is None else BarrierThread(barrier)
        pipelined = partial(PipelinedRounds, rounds, self._barriers, light_rounds)
        self._thread_rounds = pipelined(self._wake)
        self._loop_rounds: LoopRounds | None = None
        if light_rounds is not None:
            self._loop_rounds = LoopRounds(
                pipelined, engine, light_rounds, has_failed=self._has_failed, leave=self._leave
            )
        self.stats = rounds.stats
        self._arrivals = Arrivals(engine)
        self._turns = Turns(self._hand_over, self._is_for_thread, gathering)
        self._reopened_after = 0
        self._failure: str | None = None
        self._is_thread_ready = False
        self._has_defect = False
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
        rounds = self._loop_rounds
        return rounds is None or not rounds.are_light() or self._at_work.locked()

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
        if rounds is None or not rounds.are_light():
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
            self._wake()  # The thread sees to it.

    def _wake(self) -> None:
        """Wake the committer's thread. Any thread may call it."""
        self._arrivals.put([])

    def _come_back(self, submitted: Submitted) -> None:
        """Take back an operation whose wait is over. Any thread may call it."""
        self._arrivals.put([submitted])
        if self._has_defect:
            self._loop.call_soon_threadsafe(self._refuse_pending)

    async def close(self) -> None:
        self._reopening.stop()
        self._turns.hand_over()
        self._arrivals.end()
        await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self._close_barriers)
        self._barrier.close()

    def _close_barriers(self) -> None:
        if self._barriers is not None:
            self._barriers.close()

    def _run(self) -> None:
        try:
            while (taken := self._take()) is not None:
                self._go_on_with(taken)
        except BaseException:
            log.exception("the committer ended by a defect")
            self._close_barriers()  # Until then one may need what operations have open.
            self._failure = "the server has a defect and must be restarted"
            self._has_defect = True
            self._engine.note_failed_barrier(self._failure)
            # This runs on the event loop, where no operation can be handed over between its look
            # and its end.
            self._loop.call_soon_threadsafe(self._end_by_defect)

    def _go_on_with(self, taken: list[Submitted]) -> None:
        """Go on with a round that has landed or with these operations, and see to what has failed
        in it, or in a round of the event loop."""
        if not taken and self._thread_rounds.has_landed():
            self._thread_rounds.land()
        elif not self._has_failed():
            self._make_round(taken)
        self._rounds.tell()
        if self._loop_rounds is not None and self._loop_rounds.defect is not None:
            raise self._loop_rounds.defect
        if self._has_failed():
            self._reopen()
            self._reopened_after = self._engine.failed_barriers

    def _make_round(self, taken: list[Submitted]) -> None:
        """Make a round, and note how long it would have kept the event loop, which takes many
        messages in parts."""
        began = time.perf_counter()
        messages = self._thread_rounds.make(taken)
        if self._light_rounds is not None:
            seconds = time.perf_counter() - began
            self._light_rounds.note(seconds * min(1.0, FEW_MESSAGES / max(1, messages)))

    def _expect(self, requests: int) -> None:
        """Note how many requests a round had, for the next."""
        if self._gathering is not None:
            waiting = requests_of(self._rounds.unsynced) + self._arrivals.waiting()
            waiting += self._turns.later()
            self._gathering.expect(requests + waiting)

    def _has_failed(self) -> bool:
        """Whether the thread must see to something before there is another round."""
        has_defect = self._loop_rounds is not None and self._loop_rounds.defect is not None
        return has_defect or self._engine.failed_barriers != self._reopened_after

    def _take(self) -> list[Submitted] | None:
        """Return all operations that can go on, up to the limit. Waits for the first, unless there
        is something else to do, which may come without any. Returns None when all is over."""
        rounds = self._thread_rounds
        while True:
            if rounds.has_landed():
                return []
            taken = self._arrivals.take(MAX_ROUND_OPERATIONS - len(self._rounds.unsynced))
            # A barrier may have landed meanwhile, and what woke the thread for it may be taken too.
            if taken or rounds.has_landed() or rounds.is_barrier_due():
                return taken
            if self._arrivals.is_ended and not (self._engine.away or rounds.is_flying):
                return None
            self._wait_for_turn()
            if self._has_failed():
                return []

    def _wait_for_turn(self) -> None:
        """Wait for what comes next. Meanwhile the event loop may make rounds, unless a barrier is
        in flight."""
        if self._thread_rounds.is_flying:
            self._arrivals.admit(self._arrivals.wait())
            return
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
        if self._reopening.run(self._refuse_pending):
            self._failure = None

    def _end_by_defect(self) -> None:
        refused = self._rounds.taken + self._thread_rounds.in_flight + self._rounds.unsynced
        if self._loop_rounds is not None:
            refused += self._loop_rounds.in_flight
        self._refuse(refused)
        self._refuse_pending()

    def _refuse_pending(self) -> None:
        self._refuse(self._arrivals.take_all())

    def _refuse(self, refused: list[Submitted]) -> None:
        assert self._failure is not None
        self._rounds.refuse(refused, self._failure)
