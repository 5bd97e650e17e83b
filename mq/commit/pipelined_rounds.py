"""Rounds of one thread: while the barrier of one is in flight, the next one gathers.

A thread of its own passes the barrier of many messages. Meanwhile the one that makes the rounds
makes the file calls of the next. One barrier at a time is in flight: a round is durable only after
the one before it. If a barrier fails, the round that gathers fails as well: that one error may be
all that the kernel reports of its data.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mq.commit.barrier_thread import BarrierThread
from mq.commit.light_rounds import FEW_MESSAGES, LightRounds
from mq.commit.operation import Submitted, requests_of
from mq.commit.rounds import Rounds, needs_of


class PipelinedRounds:
    """Rounds of the committer's thread, or of the event loop. While it makes one, or a barrier of
    its own is in flight, no other thread touches `rounds`. Without `barriers` none takes off.
    `light_rounds` is told how large each round is. `wake` is called on the thread of barriers when
    one has landed."""

    def __init__(
        self,
        rounds: Rounds,
        barriers: BarrierThread | None,
        light_rounds: LightRounds | None,
        wake: Callable[[], None],
    ) -> None:
        self._rounds = rounds
        self._barriers = barriers
        self._light_rounds = light_rounds
        self._wake = wake
        self._landing: list[BaseException | None] = []
        self._started = self._started_in_flight = 0.0
        self._requests = self._requests_in_flight = 0
        self.in_flight: list[Submitted] = []
        self.is_flying = False

    def has_landed(self) -> bool:
        """Whether a barrier in flight is over, so that `land` is to be called."""
        return bool(self._landing)

    def is_barrier_due(self) -> bool:
        """Whether operations are at their barrier, so that `make` is to be called, though no others
        have come."""
        return not self.is_flying and bool(self._rounds.unsynced)

    def make(self, taken: list[Submitted]) -> int:
        """Make a round of these operations and of those that are at their barrier already; or let
        them gather for the next, if a barrier is in flight. Returns how many messages were at their
        barrier."""
        rounds = self._rounds
        if not self._requests:
            self._started = time.perf_counter()
        rounds.begin(taken)
        self._requests = max(self._requests + requests_of(taken), requests_of(rounds.unsynced))
        messages = rounds.count_messages()
        if self._light_rounds is not None:
            self._light_rounds.note_size(messages, self._requests)
        if not self.is_flying:
            if messages > FEW_MESSAGES and self._barriers is not None:
                self._take_off(self._barriers)
            else:
                self._pass()
        rounds.taken = []
        return messages

    def _pass(self) -> None:
        requests, self._requests = self._requests, 0
        if self._rounds.unsynced:
            self._rounds.pass_barrier()
        self._rounds.note(self._started, requests)

    def _take_off(self, barriers: BarrierThread) -> None:
        """Send off the barrier of what has gathered."""
        unsynced = self._rounds.unsynced
        barriers.begin(needs_of(unsynced), self._note_landing)
        self.in_flight, self._rounds.unsynced = unsynced, []
        self._requests_in_flight, self._requests = self._requests, 0
        self._started_in_flight = self._started
        self.is_flying = True

    def _note_landing(self, failure: BaseException | None) -> None:
        self._landing.append(failure)
        self._wake()

    def land(self) -> None:
        """Run on the operations whose barrier has landed. What gathered meanwhile takes off
        first."""
        failure, rounds = self._landing.pop(), self._rounds
        self.is_flying = False
        if failure is not None and not isinstance(failure, OSError):
            raise failure
        passed = rounds.taken = self.in_flight
        self.in_flight = []
        rounds.note(self._started_in_flight, self._requests_in_flight)
        if failure is not None:
            passed += rounds.unsynced
            rounds.unsynced = []
            self._requests = 0
            rounds.fail(passed, failure)
        elif rounds.unsynced and self._barriers is not None:
            self._take_off(self._barriers)
        rounds.go_on(passed)
        rounds.taken = []
