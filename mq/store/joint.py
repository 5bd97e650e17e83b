"""What requests of one turn of the event loop ask of a queue, done by one operation for all.

Each operation has a price of its own, beside the file calls of its messages: with 64 clients at
work it was more than the file calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from mq.commit.operation import Done, tell
from mq.names import QueueName

T = TypeVar("T")

MAX_TOGETHER = 64
"""One operation serves at most this many requests. Their small bodies are in memory together."""


class Joint(Generic[T]):
    """Gathers what is asked for during a turn of the event loop, and passes it on by queue, in the
    order in which it came. Used on the event loop.

    Beside `peers` other servers it passes on each at once: there a round waits for its clients
    (`mq.commit.gathering`), and would not see those that wait here."""

    def __init__(self, begin: Callable[[QueueName, Sequence[T]], None], peers: int) -> None:
        self._begin = begin
        self._is_beside_others = peers > 0
        self._loop = asyncio.get_running_loop()
        self._asked: dict[QueueName, list[T]] = {}

    def ask(self, queue: QueueName, asked: T) -> None:
        if self._is_beside_others:
            self._begin(queue, [asked])
            return
        others = self._asked.get(queue)
        if others is None:
            others = self._asked[queue] = []
            self._loop.call_soon(self._end_turn, queue)
        others.append(asked)

    def _end_turn(self, queue: QueueName) -> None:
        asked = self._asked.pop(queue)
        for first in range(0, len(asked), MAX_TOGETHER):
            self._begin(queue, asked[first : first + MAX_TOGETHER])


def tell_each(dones: Sequence[Done], outcomes: Sequence[Any], error: BaseException | None) -> None:
    """Tell each request what the operation returned for it: a result, or what is wrong. `error` is
    what the operation raised, and concerns all of them."""
    if error is not None:
        outcomes = [error] * len(dones)
    for done, outcome in zip(dones, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            tell(done, None, outcome)
        else:
            tell(done, outcome, None)
