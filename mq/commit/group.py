"""Group commit: one barrier serves all operations that wait.

What is asked for in one turn of the event loop is handed over together. The event loop makes a
round of it itself (`mq.commit.loop_rounds`), pauses included, while rounds are light and the thread
is idle. Otherwise the committer's thread does (`mq.commit.committer_thread`): it takes all pending
operations as a round and wakes the event loop once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

from mq.commit import awaited
from mq.commit.arrivals import MAX_PENDING_OPERATIONS, Arrivals
from mq.commit.barrier import Barrier
from mq.commit.barrier_thread import BarrierThread
from mq.commit.committer_thread import CommitterThread
from mq.commit.engine import Engine
from mq.commit.gathering import Gathering
from mq.commit.light_rounds import LightRounds
from mq.commit.loop_rounds import LoopRounds
from mq.commit.operation import Operation, Submitted, requests_of
from mq.commit.reopening import Reopening
from mq.commit.rounds import Rounds
from mq.commit.turns import Turns
from mq.errors import StoreUnavailable

T = TypeVar("T")

_ENDS = "the server stops; try again"


class GroupCommitter:
    """The committer of a root on stable media, with a thread of its own, which `start` starts.

    `begin_round` is called before each round, and `end_calls` whenever its operations have done
    file calls. `recover` reopens the store and sweeps it after a failed barrier, and raises OSError
    while that does not work. `gathering` says how long a round waits for more operations; without
    it, no round waits. With `light_rounds` the event loop makes rounds while they are light, and
    barriers of others are passed beside the next round.
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
        self._gathering = gathering
        self._loop = asyncio.get_running_loop()
        self._engine = engine = Engine(workers, self._come_back)
        self._rounds = rounds = Rounds(engine, barrier, begin_round, end_calls, self._expect)
        self.stats = rounds.stats
        self._arrivals = arrivals = Arrivals(engine)
        barriers = None if light_rounds is None else BarrierThread(barrier)
        self._thread = thread = CommitterThread(
            engine,
            rounds,
            arrivals,
            Reopening(barrier, recover),
            self._refuse_under_way,
            barriers=barriers,
            gathering=gathering,
            light_rounds=light_rounds,
        )
        self._loop_rounds: LoopRounds | None = None
        if light_rounds is not None:
            self._loop_rounds = LoopRounds(
                engine, rounds, arrivals, thread, barriers=barriers, light_rounds=light_rounds
            )
        self._turns = Turns(self._hand_over, self._is_for_thread, gathering)

    def start(self) -> None:
        self._thread.start()

    @property
    def failure(self) -> str | None:
        return self._thread.failure

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    async def run(self, operation: Operation[T], abandoned: Callable[[T], None] | None = None) -> T:
        return await awaited.run(self, operation, abandoned)

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        return await awaited.call(self, function, *arguments)

    def submit(self, submitted: Submitted) -> None:
        failure = _ENDS if self._arrivals.is_ending else self._thread.failure
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
        return rounds is None or not rounds.are_light() or self._thread.at_work.locked()

    def _hand_over(self, turn: list[Submitted]) -> None:
        """Hand operations over once in a turn of the event loop, so that the thread is woken once
        and finds all of them."""
        rounds = self._loop_rounds
        if turn and (rounds is None or not rounds.make(turn)):
            self._arrivals.put(turn)
        if self._thread.has_defect:
            self._thread.refuse_pending()

    def _come_back(self, submitted: Submitted) -> None:
        """Take back an operation whose wait is over. Any thread may call it."""
        self._arrivals.put([submitted])
        if self._thread.has_defect:
            self._loop.call_soon_threadsafe(self._thread.refuse_pending)

    def _expect(self, requests: int) -> None:
        """Note how many requests a round had, for the next."""
        if self._gathering is not None:
            waiting = requests_of(self._rounds.unsynced) + self._arrivals.waiting()
            waiting += self._turns.later()
            self._gathering.expect(requests + waiting)

    def _refuse_under_way(self) -> None:
        """Refuse all that a defect of the thread, or of a round of the event loop, has left."""
        refused = self._rounds.taken + self._thread.in_flight + self._rounds.unsynced
        if self._loop_rounds is not None:
            refused += self._loop_rounds.in_flight
        self._thread.refuse(refused)
        self._thread.refuse_pending()

    async def close(self) -> None:
        self._thread.stop_reopening()
        self._turns.hand_over()
        self._arrivals.end()
        await asyncio.to_thread(self._thread.join)
        self._barrier.close()
