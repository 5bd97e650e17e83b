"""Rounds that the event loop makes itself, while they are light and the committer's thread is idle.

It passes the barrier of a few messages itself: waking a thread would take longer than that saves.
While the barrier of more is in flight, it answers other requests too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from mq.commit.arrivals import Arrivals
from mq.commit.barrier_thread import BarrierThread
from mq.commit.committer_thread import CommitterThread
from mq.commit.engine import Engine
from mq.commit.light_rounds import LightRounds
from mq.commit.operation import Submitted, tell_each
from mq.commit.pipelined_rounds import PipelinedRounds
from mq.commit.rounds import MAX_ROUND_OPERATIONS, Rounds


class LoopRounds:
    """Rounds of the event loop. While it makes one, or a barrier of its own is in flight, it holds
    `at_work` of the thread, which makes none then."""

    def __init__(
        self,
        engine: Engine,
        rounds: Rounds,
        arrivals: Arrivals,
        thread: CommitterThread,
        *,
        barriers: BarrierThread | None,
        light_rounds: LightRounds,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._engine = engine
        self._rounds = rounds
        self._arrivals = arrivals
        self._thread = thread
        self._light_rounds = light_rounds
        self._pipelined = PipelinedRounds(rounds, barriers, light_rounds, self._wake)

    @property
    def in_flight(self) -> list[Submitted]:
        return self._pipelined.in_flight

    def are_light(self) -> bool:
        return self._light_rounds.are_usual()

    def make(self, turn: list[Submitted]) -> bool:
        """Make a round of these operations, or let them gather for the next, and tell the callers
        of those that are over. Returns False if that is up to the thread."""
        thread, pipelined = self._thread, self._pipelined
        if not self._light_rounds.are_usual() or thread.is_wanted() or thread.has_failed():
            return False
        if len(self._rounds.unsynced) + len(turn) > MAX_ROUND_OPERATIONS:
            return False
        if not pipelined.is_flying and not self._come_to_work():
            return False
        taken = self._arrivals.take_at_once(turn)
        self._work(lambda: pipelined.make(taken))
        return True

    def _come_to_work(self) -> bool:
        """Let the event loop make rounds, if the thread makes none."""
        thread = self._thread
        if not thread.at_work.acquire(blocking=False):
            return False
        if self._arrivals.is_ended or thread.is_wanted() or thread.has_failed():
            thread.at_work.release()
            return False
        return True

    def _leave(self) -> None:
        """Let the thread work: the event loop has nothing under way any more."""
        self._thread.at_work.release()
        if self._thread.has_failed():
            self._thread.wake()  # It sees to that.

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._land)

    def _land(self) -> None:
        """Go on after a barrier in flight."""
        if self._thread.loop_defect is None:
            self._work(self._pipelined.land)
        else:
            self._leave()

    def _work(self, step: Callable[[], object]) -> None:
        """Take a step. An operation that then needs another barrier gets that too."""
        pipelined, began = self._pipelined, time.perf_counter()
        try:
            step()
            while pipelined.is_barrier_due() and not self._thread.has_failed():
                pipelined.make([])
        except BaseException as error:
            self._thread.loop_defect = error
        self._light_rounds.note(time.perf_counter() - began)
        ended = self._engine.take_ended()
        if not pipelined.is_flying:
            self._leave()
        tell_each(ended)
