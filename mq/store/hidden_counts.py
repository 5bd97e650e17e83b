"""Count the leased and delayed messages of a queue, which takes about 5 us for each."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import count
from typing import NamedTuple

from mq.commit.operation import InWorker, Operation, Shared
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder, State
from mq.names import QueueName
from mq.spool.message.held import seal_at
from mq.spool.message.seal import state_in
from mq.spool.queue.hidden import hidden_names
from mq.spool.spool import Spool


class HiddenCount(NamedTuple):
    """How many messages of a queue are leased, and how many delayed."""

    leased: int
    delayed: int


class HiddenCounts:
    """The counts of one server. Each queue has one count under way at a time; callers that ask
    meanwhile share the next one. So each caller sees what was done before it asked, and any number
    of callers at a time cost no more than two counts."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._numbers = count()
        self._next: dict[QueueName, int] = {}
        self._running: dict[QueueName, int] = {}

    def count(self, queue: QueueName) -> Operation[HiddenCount]:
        """Count a queue's messages in `delay`. Raises OSError, StoreUnavailable."""
        found: HiddenCount = yield self._shared(
            queue, self._next.setdefault(queue, next(self._numbers))
        )
        return found

    def _shared(self, queue: QueueName, number: int) -> Shared:
        return Shared(f"count {queue} {number}", partial(self._count, queue, number))

    def _count(self, queue: QueueName, number: int) -> Operation[HiddenCount]:
        running = self._running.get(queue)
        try:
            if running is not None:
                with suppress(OSError, StoreUnavailable):
                    yield self._shared(queue, running)
        finally:
            del self._next[queue]
        self._running[queue] = number
        try:
            found: HiddenCount = yield InWorker(count_hidden, self._spool, queue)
            return found
        finally:
            del self._running[queue]


def count_hidden(spool: Spool, queue: QueueName) -> HiddenCount:
    """Count a queue's messages in `delay`. Blocking: it looks at every seal. Raises OSError."""
    found = [is_leased(spool, each) for each in hidden_names(spool, queue)]
    return HiddenCount(found.count(True), found.count(False))


def is_leased(spool: Spool, name: str) -> bool | None:
    """Return whether a message in `delay` is leased, and not delayed; None if it is gone."""
    try:
        seal = seal_at(spool, Folder.DELAY, name)
    except OSError:
        return None
    return state_in(Folder.DELAY, seal) is State.LEASED
