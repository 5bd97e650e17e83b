"""Rounds that the event loop makes itself, while they are fast.

The barrier of a few messages it passes itself: to wake a thread for it takes longer than that
saves. The barrier of more is passed by a thread of its own, and until that has landed the event
loop answers other requests and makes the file calls of the next round. One barrier at a time is in
flight: a round is durable only behind the one before it. If a barrier fails, the round that gathers
has failed as well: the kernel may have told of its data by that same error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from operator import attrgetter
from typing import TypeVar

from mq.commit.barrier import Barrier
from mq.commit.barrier_thread import BarrierThread
from mq.commit.fast_rounds import FastRounds
from mq.commit.operation import Submitted, requests_of
from mq.commit.rounds import Rounds, needs_of, tell_each

T = TypeVar("T")

FEW_MESSAGES = 64
"""The event loop passes the barrier of up to this many messages itself."""

_MESSAGES = attrgetter("need.messages")
"""Of an operation at its barrier."""


class LoopRounds(Rounds):
    """Rounds of the event loop. `_at_work` is held by the thread that makes a round, and what a
    round uses belongs to the holder: the event loop while it is at work, else the committer's
    thread."""

    def __init__(
        self,
        barrier: Barrier,
        begin_round: Callable[[], None],
        end_calls: Callable[[], None],
        workers: Executor,
        fast_rounds: FastRounds | None,
    ) -> None:
        super().__init__(barrier, begin_round, end_calls, workers)
        self._fast_rounds = fast_rounds
        self._barriers = None if fast_rounds is None else BarrierThread(self._loop)
        self._at_work = threading.Lock()
        self._is_flying = False
        self._in_flight: list[Submitted] = []
        self._requests = self._requests_in_flight = 0
        self._started = self._beside_seconds = 0.0
        self._part = 1.0
        self._defect: BaseException | None = None

    def _are_rounds_fast(self) -> bool:
        return self._fast_rounds is not None and self._fast_rounds.are_usual()

    def _has_failed(self) -> bool:
        """Whether the thread must see to something before there is another round."""
        raise NotImplementedError

    def _leave(self) -> None:
        """The event loop has nothing under way any more. It lets the thread work."""
        raise NotImplementedError

    def _make_round(self, taken: list[Submitted]) -> None:
        """Make a round of these operations, or let them gather for the next, and tell the callers
        of those that are over. The event loop is at work until `_leave`."""
        self._work(self._begin_or_gather, taken)

    def _work(self, step: Callable[[T], None], argument: T) -> None:
        began = time.perf_counter()
        try:
            step(argument)
            self._round = []
        except BaseException as error:
            self._defect = error
        self._note_held(time.perf_counter() - began)
        ended, self._ended = self._ended, []
        if not self._is_flying:
            self._leave()
        tell_each(ended)

    def _begin_or_gather(self, taken: list[Submitted]) -> None:
        self._requests += requests_of(taken)
        if self._is_flying:
            self._begin(taken)
        else:
            self._started = time.perf_counter()
            self._begin(taken)
            self._pass_gathered(FEW_MESSAGES)

    def _pass_gathered(self, most_here: int) -> None:
        """Pass the barrier of what has gathered: here, if it is no more than that. What asks for
        another one behind it has that too."""
        while not self._has_failed():
            if sum(map(_MESSAGES, self._unsynced)) > most_here:
                self._take_off()
                break
            requests = max(self._requests, requests_of(self._unsynced))
            self._requests = 0
            if self._unsynced:
                super()._pass_barrier(self._unsynced)
                unsynced, self._unsynced = self._unsynced, []
                self._go_past(unsynced)
            self._note(self._started, requests)
            if not self._unsynced:
                break

    def _take_off(self) -> None:
        """Have the barrier of what has gathered passed by the thread for that."""
        assert self._barriers is not None
        barrier = self._barrier.prepare(needs_of(self._unsynced))
        self._in_flight, self._unsynced = self._unsynced, []
        self._requests_in_flight, self._requests = self._requests, 0
        self._is_flying = True
        self._barriers.begin(barrier, self._land)

    def _land(self, failure: BaseException | None) -> None:
        """Go on behind a barrier of that thread."""
        self._is_flying = False
        if self._defect is None:
            self._work(self._go_on_behind, failure)
        else:
            self._leave()

    def _go_on_behind(self, failure: BaseException | None) -> None:
        """What has gathered takes off before what is behind its barrier goes on."""
        if failure is not None and not isinstance(failure, OSError):
            raise failure
        passed = self._round = self._in_flight
        self._in_flight = []
        self._note(self._started, self._requests_in_flight)
        if failure is not None:
            passed += self._unsynced
            self._unsynced = []
            self._fail(passed, failure)
        elif self._unsynced:
            self._take_off()
        self._go_past(passed)
        if self._unsynced and not self._is_flying:
            self._pass_gathered(0)

    def _note(self, started: float, requests: int) -> None:
        super()._note(started, requests)
        self._started = time.perf_counter()

    def _commit(self, taken: list[Submitted]) -> None:
        """Commit a round of the committer's thread, and note how long it would have held up the
        event loop, which passes the barrier of many messages beside, and takes them in parts."""
        began, self._beside_seconds, self._part = time.perf_counter(), 0.0, 1.0
        super()._commit(taken)
        self._note_held(self._part * (time.perf_counter() - began - self._beside_seconds))

    def _pass_barrier(self, unsynced: list[Submitted]) -> None:
        """Pass a barrier on the committer's thread."""
        began, messages = time.perf_counter(), sum(map(_MESSAGES, unsynced))
        super()._pass_barrier(unsynced)
        if messages > FEW_MESSAGES:
            self._beside_seconds = time.perf_counter() - began
            self._part = FEW_MESSAGES / messages

    def _note_held(self, seconds: float) -> None:
        """Note how long the event loop was held up."""
        if self._fast_rounds is not None:
            self._fast_rounds.note(seconds)
