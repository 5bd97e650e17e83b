"""Operations on their way to the next round."""

from __future__ import annotations

import queue
from collections import deque

from mq.commit.engine import Engine
from mq.commit.operation import Submitted

MAX_PENDING_OPERATIONS = 8192
"""How many operations may wait; for more the server answers 503."""


class Arrivals:
    """Operations that no round has taken yet: new ones, and those whose wait is over. They come in
    turns, lists of what came at the same time. Any thread may put a turn in; only the one that
    makes rounds takes operations out. After `end` no new ones come: `is_ending` is set, and
    `is_ended` once all turns before that are in."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turns: queue.SimpleQueue[list[Submitted] | None] = queue.SimpleQueue()
        self._here: deque[Submitted] = deque()
        self._submitted = self._taken = 0
        self.is_ending = self.is_ended = False

    def count(self, submitted: Submitted) -> None:
        """Count the requests of a new operation, which will be in one of the next turns."""
        self._submitted += submitted.requests

    def waiting(self) -> int:
        """Return how many requests no round has taken yet. Any thread may call it."""
        return self._submitted - self._taken

    def put(self, turn: list[Submitted]) -> None:
        self._turns.put(turn)

    def end(self) -> None:
        self.is_ending = True
        self._turns.put(None)

    def has_turn(self) -> bool:
        return not self._turns.empty()

    def wait(self) -> list[Submitted] | None:
        """Wait for the next turn, which is to be passed to `admit`. Any thread may wait."""
        return self._turns.get()

    def admit(self, turn: list[Submitted] | None) -> None:
        if turn is None:
            self.is_ended = True
        else:
            self._here.extend(turn)

    def take(self, most: int) -> list[Submitted]:
        """Return up to `most` operations from the turns that have come."""
        taken: list[Submitted] = []
        while len(taken) < most:
            if self._here:
                taken.append(self._take_one())
            elif self.has_turn():
                self.admit(self._turns.get())
            else:
                break
        return taken

    def take_at_once(self, turn: list[Submitted]) -> list[Submitted]:
        """Admit this turn ahead of those that were put in, and return as many operations as it
        has."""
        self._here.extend(turn)
        return [self._take_one() for _ in turn]

    def take_all(self) -> list[Submitted]:
        while self.has_turn():
            self.admit(self._turns.get())
        return [self._take_one() for _ in tuple(self._here)]

    def _take_one(self) -> Submitted:
        each = self._here.popleft()
        if each.need is None:
            self._taken += each.requests
        else:
            self._engine.take_back(each)
        return each
