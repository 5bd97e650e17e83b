"""Receives of one queue that come before one round. They are one operation, which takes as many
messages of each queue as they ask for together. Those that hide them for the same time get theirs
in the order in which they came, each as many as it asks for while there are any. One who waits in
line comes before those who do not, once it is woken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from mq.commit.committer import Committer
from mq.commit.operation import Done, Operation, Submitted, tell
from mq.errors import QueueNotFound
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
from mq.store.receiving.waiting import MAX_WAITING_RECEIVES, Waiter
from mq.store.receiving.watching import Watching
from mq.store.shared_state import Workspace


class _Key(NamedTuple):
    """What receives must have in common to be one operation. `leave` is how many messages those who
    wait leave to others ahead of them, None for those who do not wait."""

    queue: QueueName
    visibility_ns: int | None
    leave: int | None = None


class _Receiver(NamedTuple):
    """One who receives up to `limit` messages: `done` gets them. One who waits is in line."""

    limit: int
    done: Done
    in_line: Waiter | None = None


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

    def submit(
        self,
        queue: QueueName,
        visibility_ns: int | None,
        limit: int,
        done: Done,
        in_line: Waiter | None = None,
    ) -> None:
        """Take the oldest messages, up to `limit`. `done` gets what `Receives.receive` returns or
        raises. One who is in line leaves those that are for others ahead of it, and may get
        Lost.BUSY, if others hold all there are."""
        self._joint.ask((_Key(queue, visibility_ns), _Receiver(limit, done, in_line)))

    def _begin(self, asked: Sequence[tuple[_Key, _Receiver]]) -> None:
        if any(each.in_line is not None for _, each in asked):
            asked = _in_turn(asked)
        alike = grouped(asked)
        if len(alike) > 1 and all(each.limit == 1 for _, each in asked):
            asks = [(key.queue, self._ask(key, len(some))) for key, some in alike.items()]
            handing_out = partial(self._hand_out_each, alike)
            self._committer.submit(Submitted(lease_each(self._work, asks), handing_out, len(asked)))
        else:
            for key, requests in alike.items():
                self._take(key, requests)

    def _ask(self, key: _Key, limit: int, share: Share | None = None) -> Ask:
        leave = self._watching.waiting.count(key.queue) if key.leave is None else key.leave
        return Ask(key.visibility_ns, limit, leave, share)

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
            limit, done, _ = requests[served]
            some = received[given : given + limit]
            given += len(some)
            served += 1
            if None in map(BODY, some):
                self._check(key, some, requests[served - 1])
            else:
                tell(done, some, None)
        left = requests[served:]
        if left and received:
            # There was no room for more, or an error ended it, or the index did not know of all.
            self._take(key, left)
        elif left:
            self._let_go(key.queue, left, taken, error)

    def _let_go(
        self,
        queue: QueueName,
        requests: Sequence[_Receiver],
        taken: ReceivedOrBusy | None,
        error: BaseException | None,
    ) -> None:
        passing = [each for each in requests if each.in_line is None]
        if passing and error is None:
            self._watching.wake_for_what_is_left(queue, len(passing))
        if isinstance(error, QueueNotFound):
            # All who wait for it find that out.
            self._work.ready.came(queue, MAX_WAITING_RECEIVES)
        for each in requests:
            tell(each.done, [] if each.in_line is None else taken, error)

    def _check(self, key: _Key, received: list[Received], receiver: _Receiver) -> None:
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
                receiver.done(taken, None)
            else:
                self._let_go(queue, [receiver], taken, error)

        self._committer.submit(Submitted(check(), checked))


def _in_turn(asked: Sequence[tuple[_Key, _Receiver]]) -> list[tuple[_Key, _Receiver]]:
    """Return what is asked by those who are still there, first by those whose turn it is. What the
    others in line leave is counted when these have begun."""
    first: list[tuple[_Key, _Receiver]] = []
    others: list[tuple[_Key, _Receiver]] = []
    for key, each in asked:
        if each.in_line is None:
            others.append((key, each))
        elif not each.in_line.is_out:
            (first if each.in_line.has_turn else others).append((key, each))
    for _, each in first:
        assert each.in_line is not None
        each.in_line.begin_turn()
    return [
        (key if each.in_line is None else key._replace(leave=each.in_line.ahead(key.queue)), each)
        for key, each in (*first, *others)
    ]


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
