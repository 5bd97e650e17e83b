"""Receives that do not wait. Those that come before one round are one operation, which takes as
many messages of each queue as they ask for together. Those that hide them for the same time get
theirs in the order in which they came, each as many as it asks for while there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from mq.commit.committer import Committer
from mq.commit.operation import Done, Operation, Submitted, tell
from mq.names import QueueName
from mq.store.answer_memory import AnswerMemory, Share
from mq.store.joint import MAX_TOGETHER, Joint, grouped
from mq.store.receiving.lease_each import lease_each
from mq.store.receiving.oldest import Ask
from mq.store.receiving.receive import (
    ReceivedOrBusy,
    check_bodies,
    lease_some,
    receive_some,
)
from mq.store.receiving.received_message import BODY, Received
from mq.store.receiving.watching import Watching
from mq.store.shared_state import Workspace


class _Key(NamedTuple):
    """What receives must have in common to be one operation."""

    queue: QueueName
    visibility_ns: int | None


class _Receiver(NamedTuple):
    """One who receives up to `limit` messages: `done` gets them."""

    limit: int
    done: Done


class JointReceives:
    """The receives of one server that do not wait. Used on the event loop."""

    def __init__(
        self,
        work: Workspace,
        committer: Committer,
        watching: Watching,
        memory: AnswerMemory,
        give_back: Callable[[Iterable[Received]], None],
    ) -> None:
        self._work = work
        self._committer = committer
        self._watching = watching
        self._memory = memory
        self._give_back = give_back
        self._joint: Joint[tuple[_Key, _Receiver]] = Joint(committer, self._begin)

    def submit(self, queue: QueueName, visibility_ns: int | None, limit: int, done: Done) -> None:
        """Take the oldest messages, up to `limit`. `done` gets what `Receives.receive` returns or
        raises."""
        self._joint.ask((_Key(queue, visibility_ns), _Receiver(limit, done)))

    def _begin(self, asked: Sequence[tuple[_Key, _Receiver]]) -> None:
        alike = grouped(asked)
        if len(alike) > 1 and all(each.limit == 1 for _, each in asked):
            asks = [(key.queue, self._ask(key, len(some))) for key, some in alike.items()]
            handing_out = partial(self._hand_out_each, alike)
            self._committer.submit(Submitted(lease_each(self._work, asks), handing_out, len(asked)))
        else:
            for key, requests in alike.items():
                self._take(key, requests)

    def _ask(self, key: _Key, limit: int, share: Share | None = None) -> Ask:
        return Ask(key.visibility_ns, limit, self._watching.waiting.count(key.queue), share)

    def _take(self, key: _Key, requests: Sequence[_Receiver]) -> None:
        for some, limit in _together(requests):
            # One message for each is what each may have in memory anyway.
            share = self._memory.share() if limit > len(some) else None
            leasing = lease_some(self._work, key.queue, self._ask(key, limit, share))
            handing_out = partial(self._hand_out, key, some, share)
            self._committer.submit(Submitted(leasing, handing_out, len(some)))

    def _hand_out_each(
        self,
        asked: Mapping[_Key, Sequence[_Receiver]],
        taken: Sequence[list[Received] | None] | None,
        error: BaseException | None,
    ) -> None:
        outcomes = [None] * len(asked) if taken is None else taken
        for (key, requests), some in zip(asked.items(), outcomes, strict=True):
            if some is None and error is None:
                self._take(key, requests)
            else:
                self._hand_out(key, requests, None, some, error)

    def _hand_out(
        self,
        key: _Key,
        requests: Sequence[_Receiver],
        share: Share | None,
        taken: ReceivedOrBusy | None,
        error: BaseException | None,
    ) -> None:
        if share is not None:
            share.end()
        received = taken if isinstance(taken, list) else []
        given = served = 0
        while given < len(received):
            limit, done = requests[served]
            some = received[given : given + limit]
            given += len(some)
            served += 1
            if None in map(BODY, some):
                self._check(key, some, done)
            else:
                tell(done, some, None)
        left = requests[served:]
        if left and received:
            # There was no room for more, or an error ended it, or the index did not know of all.
            self._take(key, left)
        elif left:
            self._let_go(key.queue, left, error)

    def _let_go(
        self, queue: QueueName, requests: Sequence[_Receiver], error: BaseException | None
    ) -> None:
        if error is None:
            self._watching.wake_for_what_is_left(queue, len(requests))
        for each in requests:
            tell(each.done, [], error)

    def _check(self, key: _Key, received: list[Received], done: Done) -> None:
        """Check large bodies, for which nobody else need wait."""
        queue, ask = key.queue, self._ask(key, 1)
        has_begun = False

        def check() -> Operation[ReceivedOrBusy]:
            nonlocal has_begun
            has_begun = True
            return (yield from _check_or_take_next(self._work, queue, received, ask))

        def checked(taken: ReceivedOrBusy | None, error: BaseException | None) -> None:
            if not has_begun:
                self._give_back(received)  # The committer has refused the operation.
            if isinstance(taken, list) and taken:
                done(taken, None)
            else:
                self._let_go(queue, [_Receiver(1, done)], error)

        self._committer.submit(Submitted(check(), checked))


def _together(requests: Sequence[_Receiver]) -> Iterator[tuple[list[_Receiver], int]]:
    """Yield the requests of each operation, and how many messages they ask for: MAX_TOGETHER at
    most, unless one request asks for more."""
    some: list[_Receiver] = []
    asked = 0
    for each in requests:
        if some and asked + each.limit > MAX_TOGETHER:
            yield some, asked
            some, asked = [], 0
        some.append(each)
        asked += each.limit
    yield some, asked


def _check_or_take_next(
    work: Workspace, queue: QueueName, received: list[Received], ask: Ask
) -> Operation[ReceivedOrBusy]:
    """Return the messages whose bodies pass their seals, or else the next one."""
    good = yield from check_bodies(work, received)
    return good or (yield from receive_some(work, queue, ask))
