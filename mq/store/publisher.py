"""Publish from the event loop: again and again until an operation has what it asks for."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from mq.commit import Committer
from mq.config import OWN_ID_WAIT_SECONDS
from mq.errors import StoreUnavailable
from mq.names import MessageId, QueueName
from mq.store.own_id import publish_own
from mq.store.publish import Draft, Published, check_publish, publish
from mq.store.workspace import Retry, Workspace

_LONGEST_PAUSE_SECONDS = 0.05
_LISTINGS = 4
"""How often a queue's index is listed for one publish: it may be deleted and made again."""


class Publisher:
    """What a store needs to publish. `list_queue` reads a queue's index."""

    def __init__(
        self,
        work: Workspace,
        committer: Committer,
        list_queue: Callable[[QueueName], Awaitable[None]],
    ) -> None:
        self._work = work
        self._committer = committer
        self._list_queue = list_queue
        self._turns: WeakValueDictionary[tuple[QueueName, MessageId], asyncio.Lock] = (
            WeakValueDictionary()
        )

    async def check(self, queue: QueueName, messages: int = 1) -> None:
        """Raises QueueNotFound or StoreUnavailable if a publish would."""
        for _ in range(_LISTINGS):
            if await self._committer.run(check_publish(self._work, queue, messages)) is None:
                return
            await self._list_queue(queue)

    async def publish(self, queue: QueueName, draft: Draft) -> Published:
        """Publish one message. Raises QueueNotFound, StoreUnavailable, IdTaken."""
        if draft.message_id is not None:
            return await self._publish_own(queue, draft, draft.message_id)
        for _ in range(_LISTINGS):
            published = await self._committer.run(publish(self._work, queue, draft))
            if not isinstance(published, Retry):
                return published
            await self._list_queue(queue)
        raise StoreUnavailable(f"queue {queue} is being made again; try again")

    async def _publish_own(
        self, queue: QueueName, draft: Draft, message_id: MessageId
    ) -> Published:
        """Those of this server take turns; beside others it tries again and again."""
        turn = self._turns.setdefault((queue, message_id), asyncio.Lock())
        deadline, pause = time.monotonic() + OWN_ID_WAIT_SECONDS, 0.001
        async with turn:
            while time.monotonic() < deadline:
                published = await self._committer.run(publish_own(self._work, queue, draft))
                if isinstance(published, Published):
                    return published
                if published is Retry.LIST:
                    await self._list_queue(queue)
                else:
                    await asyncio.sleep(pause * random.uniform(0.5, 1))
                    pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        raise StoreUnavailable(f"message {message_id} is just being published; try again")
