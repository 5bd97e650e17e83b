"""Receives that do not wait. Those that come before one round are one operation, which takes as
many messages of each queue as there are requests. Each request gets one; those that hide it for the
same time get theirs in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from mq.commit.committer import Committer
from mq.commit.operation import Done, Operation, Submitted, tell
from mq.names import QueueName
from mq.store.joint import Joint, grouped
from mq.store.receiving.lease_each import lease_each
from mq.store.receiving.oldest import Ask
from mq.store.receiving.receive import (
    ReceivedOrBusy,
    check_bodies,
    lease_some,
    receive_some,
)
from mq.store.receiving.received_message import Received
from mq.store.receiving.watching import Watching
from mq.store.shared_state import Workspace


class _Key(NamedTuple):
    """What receives must have in common to be one operation."""

    queue: QueueName
    visibility_ns: int | None


class JointReceives:
    """The receives of one server that do not wait. Used on the event loop."""

    def __init__(
        self,
        work: Workspace,
        committer: Committer,
        watching: Watching,
        give_back: Callable[[Iterable[Received]], None],
    ) -> None:
        self._work = work
        self._committer = committer
        self._watching = watching
        self._give_back = give_back
        self._joint: Joint[tuple[_Key, Done]] = Joint(committer, self._begin)

    def submit(self, queue: QueueName, visibility_ns: int | None, done: Done) -> None:
        """Take the oldest message. `done` gets it, or None, or what `Receives.receive` raises."""
        self._joint.ask((_Key(queue, visibility_ns), done))

    def _begin(self, asked: Sequence[tuple[_Key, Done]]) -> None:
        alike = grouped(asked)
        if len(alike) == 1:
            self._take(*alike.popitem())
            return
        asks = [(key.queue, self._ask(key, len(dones))) for key, dones in alike.items()]
        handing_out = partial(self._hand_out_each, alike)
        self._committer.submit(Submitted(lease_each(self._work, asks), handing_out, len(asked)))

    def _ask(self, key: _Key, limit: int) -> Ask:
        return Ask(key.visibility_ns, limit, self._watching.waiting.count(key.queue))

    def _take(self, key: _Key, asked: Sequence[Done]) -> None:
        leasing = lease_some(self._work, key.queue, self._ask(key, len(asked)))
        handing_out = partial(self._hand_out, key, asked)
        self._committer.submit(Submitted(leasing, handing_out, len(asked)))

    def _hand_out_each(
        self,
        asked: Mapping[_Key, Sequence[Done]],
        taken: Sequence[list[Received] | None] | None,
        error: BaseException | None,
    ) -> None:
        outcomes = [None] * len(asked) if taken is None else taken
        for (key, dones), some in zip(asked.items(), outcomes, strict=True):
            if some is None and error is None:
                self._take(key, dones)
            else:
                self._hand_out(key, dones, some, error)

    def _hand_out(
        self,
        key: _Key,
        asked: Sequence[Done],
        taken: ReceivedOrBusy | None,
        error: BaseException | None,
    ) -> None:
        received = taken if isinstance(taken, list) else []
        for done, each in zip(asked, received, strict=False):
            if each.body is None:
                self._check(key, each, done)
            else:
                tell(done, each, None)
        left = asked[len(received) :]
        if left and received:
            # There was no room for more, or an error ended it, or the index did not know of all.
            self._take(key, left)
        elif left:
            self._let_go(key.queue, left, error)

    def _let_go(self, queue: QueueName, asked: Sequence[Done], error: BaseException | None) -> None:
        if error is None:
            self._watching.wake_for_what_is_left(queue, len(asked))
        for done in asked:
            tell(done, None, error)

    def _check(self, key: _Key, received: Received, done: Done) -> None:
        """Check a large body, for which nobody else need wait."""
        queue, ask = key.queue, self._ask(key, 1)
        has_begun = False

        def check() -> Operation[ReceivedOrBusy]:
            nonlocal has_begun
            has_begun = True
            return (yield from _check_or_take_next(self._work, queue, received, ask))

        def checked(taken: ReceivedOrBusy | None, error: BaseException | None) -> None:
            if not has_begun:
                self._give_back([received])  # The committer has refused the operation.
            if isinstance(taken, list) and taken:
                done(taken[0], None)
            else:
                self._let_go(queue, [done], error)

        self._committer.submit(Submitted(check(), checked))


def _check_or_take_next(
    work: Workspace, queue: QueueName, received: Received, ask: Ask
) -> Operation[ReceivedOrBusy]:
    """Return the message if its body passes its seal, or else the next one."""
    good = yield from check_bodies(work, [received])
    return good or (yield from receive_some(work, queue, ask))
