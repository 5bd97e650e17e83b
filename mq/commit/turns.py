"""What is asked for in one turn of the event loop, handed over together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from mq.commit.gathering import Gathering, is_growing
from mq.commit.operation import Submitted, requests_of


class Turns:
    """Gathers operations and hands them over once in each turn of the event loop, on which it is
    used.

    Before a round that the event loop makes itself, it looks at its sockets once more, and again as
    long as that brings many: what came during the last round joins. With `gathering`, that of a
    server beside others, it looks after each pause instead. `is_at_once` says when nothing is
    gained by that: the committer's thread makes the round, or a barrier is in flight, and all that
    comes gathers anyway.
    """

    def __init__(
        self,
        hand_over: Callable[[list[Submitted]], None],
        is_at_once: Callable[[], bool],
        gathering: Gathering | None,
    ) -> None:
        self._hand_over = hand_over
        self._is_at_once = is_at_once
        self._gathering = gathering
        self._loop = asyncio.get_running_loop()
        self._turn: list[Submitted] = []
        self._later: list[Callable[[], None]] = []
        self._has_begun = False

    def add(self, submitted: Submitted) -> None:
        self._begin()
        self._turn.append(submitted)

    def add_later(self, submit: Callable[[], None]) -> None:
        """Add a request that waits for an operation. `submit`, which adds that, is called once for
        all such requests, when the turn is handed over."""
        self._begin()
        self._later.append(submit)

    def later(self) -> int:
        """Return how many requests wait for operations that are not submitted yet. Any thread may
        call it."""
        return len(self._later)

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        if self._is_at_once():
            self.hand_over()
        elif self._gathering is None:
            self._loop.call_soon(self._look_again, self._count())
        else:
            pauses = self._gathering.pauses(self._count)
            self._loop.call_soon(self._gather, pauses)

    def _count(self) -> int:
        return requests_of(self._turn) + self.later()

    def _look_again(self, before: int) -> None:
        """Hand over, unless more has come since `before`: then look at the sockets once more."""
        here = self._count()
        if is_growing(before, here):
            self._loop.call_soon(self._look_again, here)
        else:
            self.hand_over()

    def _gather(self, pauses: Iterator[None]) -> None:
        """Make the next of these pauses, or hand over when they are over."""
        for _ in pauses:
            self._loop.call_soon(self._gather, pauses)
            return
        self.hand_over()

    def hand_over(self) -> None:
        later, self._later = self._later, []
        try:
            for submit in dict.fromkeys(later):
                submit()
        finally:
            # Whatever went wrong there, the next turn begins as usual.
            self._has_begun = False
            turn, self._turn = self._turn, []
            self._hand_over(turn)
