"""What requests of one round ask, done by one operation for all.

Each operation costs something besides the file calls of its messages: with 64 clients at work, more
than the file calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from mq.commit.committer import Committer
from mq.commit.operation import Done, Operation, Submitted, tell
from mq.names import QueueName
from mq.store.shared_state import Workspace

K = TypeVar("K")
T = TypeVar("T")

MAX_TOGETHER = 64
"""One operation serves at most this many requests. Their small bodies are in memory together."""


class Joint(Generic[T]):
    """Gathers what is asked for until the committer begins a round, and passes it on in the order
    in which it came. The committer knows how many requests wait here. Used on the event loop."""

    def __init__(self, committer: Committer, begin: Callable[[Sequence[T]], None]) -> None:
        self._committer = committer
        self._begin = begin
        self._asked: list[T] = []

    def ask(self, asked: T) -> None:
        self._asked.append(asked)
        self._committer.submit_later(self._begin_all)

    def _begin_all(self) -> None:
        asked, self._asked = self._asked, []
        for first in range(0, len(asked), MAX_TOGETHER):
            self._begin(asked[first : first + MAX_TOGETHER])


def grouped(asked: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Return what is asked of each queue, or under any other key, in that order."""
    found: dict[K, list[T]] = {}
    for key, each in asked:
        others = found.get(key)
        if others is None:
            found[key] = [each]
        else:
            others.append(each)
    return found


ForAll = Callable[[Workspace, QueueName, Sequence[T]], Operation[Sequence[Any]]]
"""Makes an operation for what several requests ask of a queue. It returns for each a result, or
what is wrong, or an operation that goes on with it and tells its caller."""


class JointOperation(Generic[K, T]):
    """Runs the same operation for all requests of a round that ask it of a queue, or of the same
    several queues. One operation serves at most as many requests as `most` says."""

    def __init__(
        self,
        committer: Committer,
        make: Callable[[K, Sequence[T]], Operation[Sequence[Any]]],
        most: Callable[[K], int] = lambda _: MAX_TOGETHER,
    ) -> None:
        self._committer = committer
        self._make = make
        self._most = most
        self._joint: Joint[tuple[K, tuple[T, Done]]] = Joint(committer, self._begin)

    def submit(self, key: K, asked: T, done: Done) -> None:
        """Ask for one thing; `done` gets its result, or what is wrong with it."""
        self._joint.ask((key, (asked, done)))

    def _begin(self, requests: Sequence[tuple[K, tuple[T, Done]]]) -> None:
        for key, asked in grouped(requests).items():
            for each in operations_for(asked, self._most(key), partial(self._make, key)):
                self._committer.submit(each)


def operations_for(
    asked: Sequence[tuple[T, Done]],
    most: int,
    make: Callable[[Sequence[T]], Operation[Sequence[Any]]],
) -> Iterator[Submitted]:
    """Return the operations for what some requests ask, each for at most `most` of them."""
    for first in range(0, len(asked), most):
        some, dones = zip(*asked[first : first + most], strict=True)
        yield Submitted(make(some), partial(tell_outcomes, dones), len(some))


def tell_outcomes(
    dones: Sequence[Done], outcomes: Sequence[Any], error: BaseException | None
) -> None:
    """Tell each request what the operation returned for it: a result, or what is wrong. `error` is
    what the operation raised, and concerns all of them."""
    if error is not None:
        outcomes = [error] * len(dones)
    for done, outcome in zip(dones, outcomes, strict=True):
        tell_outcome(done, outcome)


def tell_outcome(done: Done, outcome: object) -> None:
    """Tell one request its result, or what is wrong; unless an operation goes on with it and does
    that."""
    if isinstance(outcome, BaseException):
        tell(done, None, outcome)
    elif not isinstance(outcome, Submitted):
        tell(done, outcome, None)
