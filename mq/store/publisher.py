"""Publish from the event loop: again and again until an operation has what it asks for."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar
from weakref import WeakValueDictionary

from mq.commit import Committer
from mq.config import OWN_ID_WAIT_SECONDS
from mq.errors import StoreUnavailable
from mq.names import MessageId, QueueName
from mq.store.batch import Batch, Entry, enter, seal_batch, take_ids
from mq.store.bodies import in_worker
from mq.store.own_id import publish_own
from mq.store.publish import Draft, Published, check_publish, publish
from mq.store.workspace import Retry, Workspace

T = TypeVar("T")


_LONGEST_PAUSE_SECONDS = 0.05
_LISTINGS = 4
"""How often a queue's index is listed for one publish: it may be deleted and made again."""


class Publisher:
    """All that is published on one server. `list_queue` reads a queue's index."""

    def __init__(
        self,
        work: Workspace,
        committer: Committer,
        workers: Executor,
        list_queue: Callable[[QueueName], Awaitable[None]],
    ) -> None:
        self._work = work
        self._committer = committer
        self._list_queue = list_queue
        self._workers = workers
        self._batches: set[asyncio.Task[list[Published]]] = set()
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

    async def publish_batch(self, queue: QueueName, entries: Sequence[Entry]) -> list[Published]:
        """Publish all of it or nothing, in that order.

        If the caller is cancelled it is published all the same. Raises what `publish` raises.
        """
        task = asyncio.create_task(self._publish_batch(queue, entries))
        self._batches.add(task)
        task.add_done_callback(self._end_batch)
        return await asyncio.shield(task)

    def _end_batch(self, task: asyncio.Task[list[Published]]) -> None:
        self._batches.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked for it may be gone

    async def close(self) -> None:
        """Wait for batches whose callers are gone."""
        await asyncio.gather(*self._batches, return_exceptions=True)

    async def _publish_batch(self, queue: QueueName, entries: Sequence[Entry]) -> list[Published]:
        for _ in range(_LISTINGS):
            ids = await self._committer.run(take_ids(self._work, queue, entries))
            if not isinstance(ids, Retry):
                break
            await self._list_queue(queue)
        else:
            raise StoreUnavailable(f"queue {queue} is being made again; try again")
        batch = await self._fill(queue, entries, ids)
        try:
            return await self._seal_and_deliver(batch)
        finally:
            await self._in_worker(batch.close)

    async def _fill(
        self, queue: QueueName, entries: Sequence[Entry], ids: Sequence[MessageId]
    ) -> Batch:
        """A batch that is whole and durable, not sealed yet."""
        async for _ in _pauses():
            batch = Batch(self._work, queue)
            is_filled = False
            try:
                is_filled = await self._in_worker(batch.fill, entries, ids) is None
            finally:
                if not is_filled:
                    await self._in_worker(batch.close)
            if is_filled:
                return batch
        raise StoreUnavailable("an id of the batch is just being published; try again")

    async def _seal_and_deliver(self, batch: Batch) -> list[Published]:
        if all(published.is_duplicate for published in batch.published):
            return batch.published
        await self._committer.run(seal_batch(self._work, batch))
        rolled = await self._in_worker(batch.deliver)
        await self._committer.run(enter(self._work, rolled))
        if rolled.left:
            batch.close()  # a sweep passes over what somebody holds
            self._work.request_sweep()
        return batch.published

    async def _publish_own(
        self, queue: QueueName, draft: Draft, message_id: MessageId
    ) -> Published:
        """Those of this server take turns; beside others it tries again and again."""
        turn = self._turns.setdefault((queue, message_id), asyncio.Lock())
        async with turn:
            async for _ in _pauses():
                published = await self._committer.run(publish_own(self._work, queue, draft))
                if isinstance(published, Published):
                    return published
                if published is Retry.LIST:
                    await self._list_queue(queue)
        raise StoreUnavailable(f"message {message_id} is just being published; try again")

    async def _in_worker(self, function: Callable[..., T], *arguments: object) -> T:
        return await in_worker(self._workers, function, *arguments)


async def _pauses() -> AsyncIterator[None]:
    """Tries, with a longer pause after each, until OWN_ID_WAIT_SECONDS are over."""
    deadline, pause = time.monotonic() + OWN_ID_WAIT_SECONDS, 0.001
    while time.monotonic() < deadline:
        yield
        await asyncio.sleep(pause * random.uniform(0.5, 1))
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
