"""The messages of a move task, some at a time: they are moved, or stay for a while or for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from mq.names import MessageId, QueueName, is_fifo
from mq.store.moving.move import Moving
from mq.store.moving.redrive import redrive
from mq.store.store import Store
from mq_sqs.fifo.moving import OrderedMove
from mq_sqs.fifo.service import FifoService

MAX_PASSED = 1000
"""A task ends once it has met more messages that it could not move."""

LOOK_AGAIN_SECONDS = 1.0
"""A message that others hold is looked at again after that, while others move, and once more before
the task ends."""


class Chunk(NamedTuple):
    """How many messages were moved; whether there are no more to move, or why the task fails."""

    moved: int = 0
    is_last: bool = False
    reason: str | None = None


class Chunks:
    """The chunks of one task. `target` is None for the queues that the messages died in. `clock` is
    in seconds, and does not go back."""

    def __init__(
        self,
        store: Store,
        fifo: FifoService,
        source: QueueName,
        target: QueueName | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._fifo = fifo
        self._source = source
        self._target = target
        self._passed: set[MessageId] = set()
        self._taken: set[MessageId] = set()
        self._may_look_again = True
        self._clock = clock
        self._looked = clock()

    async def move(self, limit: int) -> Chunk:
        """Move up to `limit` messages. Raises QueueNotFound, InvalidRequest or TooOld if a queue is
        gone or cannot take them, StoreUnavailable."""
        target, source = self._target, self._source
        if target is None or is_fifo(source):
            return await self._redrive(limit)
        moved, taken, held = await self._store.move(Moving(source, target), limit)
        self._may_look_again |= bool(moved)
        if moved:
            return Chunk(moved)
        self._taken |= set(taken)
        if held and self._may_look_again:
            await self._wait_for_holders()
            return Chunk()
        return Chunk(is_last=True, reason=self._why_some_stay())

    async def _redrive(self, limit: int) -> Chunk:
        """Move up to `limit` messages, each to the queue that it died in; from a FIFO queue, or to
        the target if there is one."""
        passed, source = frozenset(self._passed), self._source
        if is_fifo(source):
            found = await self._fifo.move(OrderedMove(source, self._target, limit, passed))
        else:
            found = await self._store.run(lambda work: redrive(work, source, limit, passed))
        self._passed.update(found.stayed)
        self._taken.update(found.taken)
        self._may_look_again |= bool(found.moved)
        if found.moved and self._clock() > self._looked + LOOK_AGAIN_SECONDS:
            self._look_again()
        if found.lost:
            return Chunk(len(found.moved), reason="CouldNotDetermineMessageSource")
        is_dry = not (found.moved or found.stayed)
        if is_dry and self._may_look_again and self._passed > self._taken:
            await self._wait_for_holders()
            return Chunk()
        is_last = is_dry or len(self._passed) > MAX_PASSED
        return Chunk(len(found.moved), is_last, self._why_some_stay() if is_last else None)

    async def _wait_for_holders(self) -> None:
        """Have what others held looked at once more, and not again before something is moved."""
        self._may_look_again = False
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        self._look_again()

    def _look_again(self) -> None:
        """Have what others held looked at again: a FIFO group waits behind such a message."""
        self._passed &= self._taken
        self._looked = self._clock()

    def _why_some_stay(self) -> str | None:
        if not self._taken:
            return None
        first, number = min(self._taken), len(self._taken)
        return f"{number} messages stay: their queue has another message of that id, like {first}"
