"""Rounds that the event loop makes itself, while they are light.

It passes the barrier of a few messages itself: waking a thread would take longer than that saves.
While the barrier of more is in flight, it answers other requests too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from mq.commit.engine import Engine
from mq.commit.light_rounds import LightRounds
from mq.commit.operation import Submitted, tell_each
from mq.commit.pipelined_rounds import PipelinedRounds


class LoopRounds:
    """Rounds of the event loop. While it makes one, or a barrier of its own is in flight, no other
    thread does; `leave` is called when that is over. `pipelined` takes what wakes the event loop.
    `has_failed` says whether the committer's thread must see to something before there is another
    round."""

    def __init__(
        self,
        pipelined: Callable[[Callable[[], None]], PipelinedRounds],
        engine: Engine,
        light_rounds: LightRounds,
        *,
        has_failed: Callable[[], bool],
        leave: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipelined = pipelined(self._wake)
        self._engine = engine
        self._light_rounds = light_rounds
        self._has_failed = has_failed
        self._leave = leave
        self.defect: BaseException | None = None

    @property
    def is_flying(self) -> bool:
        return self._pipelined.is_flying

    @property
    def in_flight(self) -> list[Submitted]:
        return self._pipelined.in_flight

    def are_light(self) -> bool:
        return self._light_rounds.are_usual()

    def make(self, taken: list[Submitted]) -> None:
        """Make a round of these operations, or let them gather for the next, and tell the callers
        of those that are over."""
        self._work(lambda: self._pipelined.make(taken))

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._land)

    def _land(self) -> None:
        """Go on after a barrier in flight."""
        if self.defect is None:
            self._work(self._pipelined.land)
        else:
            self._leave()

    def _work(self, step: Callable[[], object]) -> None:
        """Take a step. An operation that then needs another barrier gets that too."""
        pipelined, began = self._pipelined, time.perf_counter()
        try:
            step()
            while pipelined.is_barrier_due() and not self._has_failed():
                pipelined.make([])
        except BaseException as error:
            self.defect = error
        self._light_rounds.note(time.perf_counter() - began)
        ended = self._engine.take_ended()
        if not pipelined.is_flying:
            self._leave()
        tell_each(ended)
