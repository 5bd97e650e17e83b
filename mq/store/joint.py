"""What requests of one round ask of a queue, done by one operation for all.

Each operation costs something besides the file calls of its messages: with 64 clients at work, more
than the file calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from mq.commit.committer import Committer
from mq.commit.operation import Done, Operation, Submitted, tell
from mq.names import QueueName
from mq.store.context import Workspace

T = TypeVar("T")

MAX_TOGETHER = 64
"""One operation serves at most this many requests. Their small bodies are in memory together."""


class Joint(Generic[T]):
    """Gathers what is asked for until the committer begins a round, and passes it on by queue, in
    the order in which it came. The committer knows how many requests wait here. Used on the event
    loop."""

    def __init__(
        self, committer: Committer, begin: Callable[[QueueName, Sequence[T]], None]
    ) -> None:
        self._committer = committer
        self._begin = begin
        self._asked: dict[QueueName, list[T]] = {}

    def ask(self, queue: QueueName, asked: T) -> None:
        others = self._asked.get(queue)
        if others is None:
            others = self._asked[queue] = []
        others.append(asked)
        self._committer.submit_later(self._begin_all)

    def _begin_all(self) -> None:
        by_queue, self._asked = self._asked, {}
        for queue, asked in by_queue.items():
            for first in range(0, len(asked), MAX_TOGETHER):
                self._begin(queue, asked[first : first + MAX_TOGETHER])


ForAll = Callable[[Workspace, QueueName, Sequence[T]], Operation[Sequence[Any]]]
"""Makes an operation for what several requests ask of a queue. It returns for each a result, or
what is wrong."""


class JointOperation(Generic[T]):
    """Runs the same operation for all requests of a round that ask it of a queue."""

    def __init__(
        self,
        committer: Committer,
        make: Callable[[QueueName, Sequence[T]], Operation[Sequence[Any]]],
    ) -> None:
        self._committer = committer
        self._make = make
        self._joint = Joint(committer, self._run)

    def submit(self, queue: QueueName, asked: T, done: Done) -> None:
        """Ask for one thing; `done` gets its result, or what is wrong with it."""
        self._joint.ask(queue, (asked, done))

    def _run(self, queue: QueueName, requests: Sequence[tuple[T, Done]]) -> None:
        asked, dones = zip(*requests, strict=True)
        operation = self._make(queue, asked)
        self._committer.submit(Submitted(operation, partial(tell_outcomes, dones), len(requests)))


def tell_outcomes(
    dones: Sequence[Done], outcomes: Sequence[Any], error: BaseException | None
) -> None:
    """Tell each request what the operation returned for it: a result, or what is wrong. `error` is
    what the operation raised, and concerns all of them."""
    if error is not None:
        outcomes = [error] * len(dones)
    for done, outcome in zip(dones, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            tell(done, None, outcome)
        else:
            tell(done, outcome, None)
