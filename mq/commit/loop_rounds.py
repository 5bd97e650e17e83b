"""Rounds that the event loop makes itself, while they are fast.

It passes the barrier of a few messages itself: waking a thread would take longer than that saves.
The barrier of more is passed by a thread of its own. While it is in flight, the event loop answers
other requests and makes the file calls of the next round. One barrier at a time is in flight: a
round is durable only after the one before it. If a barrier fails, the round that gathers fails as
well: that one error may be all that the kernel reports of its data.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from mq.commit.barrier import Barrier
from mq.commit.barrier_thread import BarrierThread
from mq.commit.engine import Engine
from mq.commit.fast_rounds import FastRounds
from mq.commit.operation import Submitted, requests_of, tell_each
from mq.commit.rounds import Rounds, needs_of

T = TypeVar("T")

FEW_MESSAGES = 64
"""The event loop passes the barrier of up to this many messages itself."""


class LoopRounds:
    """Rounds of the event loop. While it makes one, or a barrier of its own is in flight, no other
    thread touches `rounds`; `leave` is called when that is over. `has_failed` says whether the
    committer's thread must see to something before there is another round."""

    def __init__(
        self,
        rounds: Rounds,
        engine: Engine,
        barrier: Barrier,
        fast_rounds: FastRounds,
        *,
        has_failed: Callable[[], bool],
        leave: Callable[[], None],
    ) -> None:
        self._rounds = rounds
        self._engine = engine
        self._barrier = barrier
        self._fast_rounds = fast_rounds
        self._has_failed = has_failed
        self._leave = leave
        self._barriers = BarrierThread(asyncio.get_running_loop())
        self._requests = self._requests_in_flight = 0
        self._started = 0.0
        self.in_flight: list[Submitted] = []
        self.is_flying = False
        self.defect: BaseException | None = None

    def are_fast(self) -> bool:
        return self._fast_rounds.are_usual()

    def make(self, taken: list[Submitted]) -> None:
        """Make a round of these operations, or let them gather for the next, and tell the callers
        of those that are over."""
        self._work(self._begin_or_gather, taken)

    def close(self) -> None:
        """Wait for the thread of barriers to end."""
        self._barriers.close()

    def commit(self, taken: list[Submitted]) -> None:
        """Commit a round on the committer's thread, and note how long it would have held up the
        event loop, which takes many messages in parts and leaves their barrier to another
        thread."""
        began = time.perf_counter()
        messages, barrier_seconds = self._rounds.commit(taken)
        seconds = time.perf_counter() - began
        if messages > FEW_MESSAGES:
            seconds = (seconds - barrier_seconds) * FEW_MESSAGES / messages
        self._fast_rounds.note(seconds)

    def _work(self, step: Callable[[T], None], argument: T) -> None:
        began = time.perf_counter()
        try:
            step(argument)
            self._rounds.taken = []
        except BaseException as error:
            self.defect = error
        self._fast_rounds.note(time.perf_counter() - began)
        ended = self._engine.take_ended()
        if not self.is_flying:
            self._leave()
        tell_each(ended)

    def _begin_or_gather(self, taken: list[Submitted]) -> None:
        self._requests += requests_of(taken)
        if self.is_flying:
            self._rounds.begin(taken)
        else:
            self._started = time.perf_counter()
            self._rounds.begin(taken)
            self._pass_gathered(FEW_MESSAGES)

    def _pass_gathered(self, most_here: int) -> None:
        """Pass the barrier of what has gathered: here, if it is for at most `most_here` messages.
        Operations that then need another one get that too."""
        rounds = self._rounds
        while not self._has_failed():
            if rounds.count_messages() > most_here:
                self._take_off()
                break
            requests = max(self._requests, requests_of(rounds.unsynced))
            self._requests = 0
            if rounds.unsynced:
                rounds.pass_barrier()
            self._note(requests)
            if not rounds.unsynced:
                break

    def _take_off(self) -> None:
        """Send off the barrier of what has gathered, to the thread of barriers."""
        unsynced = self._rounds.unsynced
        barrier = self._barrier.prepare(needs_of(unsynced))
        self.in_flight, self._rounds.unsynced = unsynced, []
        self._requests_in_flight, self._requests = self._requests, 0
        self.is_flying = True
        self._barriers.begin(barrier, self._land)

    def _land(self, failure: BaseException | None) -> None:
        """Go on after a barrier that was sent off."""
        self.is_flying = False
        if self.defect is None:
            self._work(self._go_on_behind, failure)
        else:
            self._leave()

    def _go_on_behind(self, failure: BaseException | None) -> None:
        """Run on the operations whose barrier has landed. What gathered meanwhile takes off
        first."""
        if failure is not None and not isinstance(failure, OSError):
            raise failure
        rounds = self._rounds
        passed = rounds.taken = self.in_flight
        self.in_flight = []
        self._note(self._requests_in_flight)
        if failure is not None:
            passed += rounds.unsynced
            rounds.unsynced = []
            rounds.fail(passed, failure)
        elif rounds.unsynced:
            self._take_off()
        rounds.go_on(passed)
        if rounds.unsynced and not self.is_flying:
            self._pass_gathered(0)

    def _note(self, requests: int) -> None:
        self._rounds.note(self._started, requests)
        self._started = time.perf_counter()
