"""Store: the queues of one root for the event loop. Knows no HTTP; HTTP knows no paths.

Small file work goes to the committer, which orders it; what takes long (large bodies, listings,
deletions, counts) goes to the workers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

import structlog

from mq.commit import Committer
from mq.config import MAX_BATCHES_AT_ONCE, MAX_FETCH_BYTES
from mq.errors import MQError, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.listing import Listing, list_queue
from mq.spool.queues import finish_deletion
from mq.store import bodies, peek, queues
from mq.store.batch import Entry
from mq.store.by_id import Guard
from mq.store.condition import Condition
from mq.store.fetches import Fetches
from mq.store.lease import Received
from mq.store.peek import Peeked
from mq.store.publish import Draft, Published
from mq.store.publisher import Publisher
from mq.store.queues import QueueInfo
from mq.store.receive import Ask
from mq.store.remove import remove, remove_leased, remove_many
from mq.store.workspace import Retry, Workspace, no_message

log = structlog.get_logger(__name__)

T = TypeVar("T")

_TRIES = 4
"""How often an operation is run again after what it asked for was done."""

_NS = 1_000_000_000


class Store:
    """One server's queues. Everything is durable on return, unless it says otherwise."""

    def __init__(self, work: Workspace, committer: Committer, workers: Executor) -> None:
        self._work = work
        self._committer = committer
        self._workers = workers
        self.condition = Condition(work, committer, workers)
        self._listings: dict[QueueName, asyncio.Task[None]] = {}
        self.batch_slots = asyncio.Semaphore(MAX_BATCHES_AT_ONCE)
        self._fetches = Fetches(work, committer, workers, self.list_queue)
        self._publisher = Publisher(work, committer, workers, self.list_queue)

    async def close(self) -> None:
        """Wait for what runs in the background."""
        await self._publisher.close()
        await self._fetches.close()
        await asyncio.gather(*self._listings.values(), return_exceptions=True)

    @property
    def max_body_bytes(self) -> int:
        return self._work.config.max_body_bytes

    @property
    def visibility_seconds(self) -> float:
        """How long a received message is hidden unless its receiver says otherwise."""
        return self._work.config.visibility_seconds

    # Queues

    async def create_queue(self, queue: QueueName) -> bool:
        """True if the queue is new. Raises StoreUnavailable."""
        for _ in range(_TRIES):
            made = await self._committer.run(queues.create_queue(self._work, queue))
            if not isinstance(made, Retry):
                return made
            await self._in_worker(finish_deletion, self._work.spool, queue)
        raise StoreUnavailable(f"queue {queue} is being deleted by another server; try again")

    async def delete_queue(self, queue: QueueName) -> None:
        """Delete a queue and all its messages, leased and delayed ones too.

        On return it never comes back. A crash in between is finished by the next sweep of any
        server. Raises QueueNotFound, StoreUnavailable.
        """
        for _ in range(_TRIES):
            if await self._committer.run(queues.begin_deletion(self._work, queue)) is None:
                try:
                    await self._in_worker(finish_deletion, self._work.spool, queue)
                except StoreUnavailable as error:
                    log.warning("deletion is left to a sweep", queue=queue, error=str(error))
                return
            await self._in_worker(finish_deletion, self._work.spool, queue)
        raise StoreUnavailable(f"queue {queue} is being deleted by another server; try again")

    async def describe_queue(self, queue: QueueName) -> QueueInfo:
        """Count a queue's messages. Raises QueueNotFound, StoreUnavailable."""
        for _ in range(_TRIES):
            counted = await self._committer.run(queues.count_ready(self._work, queue))
            if not isinstance(counted, Retry):
                break
            await self.list_queue(queue)
        else:
            raise StoreUnavailable(f"queue {queue} is being made again; try again")
        ready, oldest_ns = counted
        leased, delayed = await self._in_worker(queues.count_waiting, self._work.spool, queue)
        age = None if oldest_ns is None else max(time.time_ns() - oldest_ns, 0) / _NS
        return QueueInfo(queue, ready, leased, delayed, age)

    async def list_queue(self, queue: QueueName) -> None:
        """Read the queue's index from its folder; one listing serves all who wait for it.
        Raises QueueNotFound, StoreUnavailable."""
        task = self._listings.get(queue)
        if task is None:
            task = self._listings[queue] = asyncio.create_task(self._list_queue(queue))
            task.add_done_callback(lambda _: self._listings.pop(queue, None))
        await asyncio.shield(task)

    async def _list_queue(self, queue: QueueName) -> None:
        ready = await self._committer.run(queues.begin_listing(self._work, queue))
        listing: Listing | None = None
        try:
            listing = await self._in_worker(list_queue, self._work.spool, queue, ready.__contains__)
        finally:
            await self._committer.run(queues.end_listing(ready, listing))

    # Messages

    async def check_publish(self, queue: QueueName) -> None:
        """Raises QueueNotFound or StoreUnavailable if a publish would, before its body is read."""
        await self._publisher.check(queue)

    async def open_upload(self) -> bodies.Upload:
        """A place for a body that is too large to keep in memory. Raises StoreUnavailable."""
        spool = self._work.spool
        fd = await self._in_worker(spool.files.open_unnamed, spool.fd(Folder.NEW), spool.file_mode)
        return bodies.Upload(spool.files, fd, self._workers)

    async def publish(self, queue: QueueName, draft: Draft) -> Published:
        """Publish; see `mq.store.publish`. Raises QueueNotFound, StoreUnavailable, IdTaken."""
        return await self._publisher.publish(queue, draft)

    async def publish_batch(self, queue: QueueName, entries: Sequence[Entry]) -> list[Published]:
        """Publish all or nothing, in that order. Raises QueueNotFound, StoreUnavailable, IdTaken.

        Whoever has a batch in memory holds one of `batch_slots`.
        """
        return await self._publisher.publish_batch(queue, entries)

    async def receive(
        self, queue: QueueName, visibility_seconds: float, wait_seconds: float = 0.0
    ) -> Received | None:
        """Take the oldest message for `visibility_seconds`; None if there is none within
        `wait_seconds`.

        If the caller is cancelled the message is released. What was received is the caller's to
        close. Raises QueueNotFound, StoreUnavailable.
        """
        ask = Ask(int(visibility_seconds * _NS))
        taken = await self._fetches.fetch(queue, ask, wait_seconds)
        return taken[0] if taken else None

    async def receive_many(
        self, queue: QueueName, limit: int, visibility_seconds: float, wait_seconds: float = 0.0
    ) -> list[Received]:
        """Like `receive`, up to `limit` messages and MAX_FETCH_BYTES of bodies, under one barrier.
        Waits for the first only."""
        ask = Ask(int(visibility_seconds * _NS), limit)
        return await self._fetches.fetch(queue, ask, wait_seconds)

    async def take(
        self,
        queue: QueueName,
        message_id: MessageId,
        visibility_seconds: float,
        guard: Guard | None = None,
    ) -> Received:
        """Take that message, or prolong its lease under a guard; see `mq.store.by_id`. Raises
        QueueNotFound, MessageNotFound, LeaseMismatch, StoreUnavailable."""
        visibility_ns = int(visibility_seconds * _NS)
        return await self._fetches.take(queue, message_id, visibility_ns, guard)

    async def release_by_id(
        self, queue: QueueName, message_id: MessageId, guard: Guard | None = None
    ) -> None:
        """Put that message back into its queue, for everybody to receive. Not durable by itself:
        undone by a crash, it comes back when it is due. Raises what `take` raises."""
        await self._fetches.release(queue, message_id, guard)

    async def release(self, received: Received) -> None:
        """Give a message back that its receiver never got. Never raises: its lease ends anyway."""
        await self._fetches.put_back(received)

    def close_received(self, received: Received) -> None:
        received.close(self._work.files)

    def stop_waiting(self) -> None:
        """Answer every fetch that waits for a message with none, now and from now on."""
        self._fetches.waiting.stop()

    async def peek(
        self, queue: QueueName, limit: int, after: MessageId | None = None
    ) -> list[Peeked]:
        """Look at the oldest ready messages, up to `limit` and MAX_FETCH_BYTES of bodies; at least
        one if there is one. With `after` only at those behind that one. They are the caller's to
        close. Raises QueueNotFound, MessageNotFound, StoreUnavailable."""
        for _ in range(_TRIES):
            ids = await self._committer.run(peek.find_oldest(self._work, queue, limit, after))
            if isinstance(ids, Retry):
                await self.list_queue(queue)
                continue
            spool = self._work.spool
            found = await self._in_worker(peek.peek_up_to, spool, queue, ids, MAX_FETCH_BYTES)
            if found or not ids:
                return found
            await self._committer.run(peek.drop_gone(self._work, queue, ids))
        return []

    async def peek_at(self, queue: QueueName, message_id: MessageId) -> Peeked:
        """Look at a message: ready, leased or delayed. It is the caller's to close. Raises
        QueueNotFound, MessageNotFound, StoreUnavailable."""
        await self._committer.run(queues.check_queue(self._work, queue))
        found = await self._in_worker(peek.peek_at, self._work.spool, queue, message_id)
        if found is None:
            raise no_message(queue, message_id)
        return found

    def open_download(self, message: Received | Peeked) -> bodies.Download:
        """The body of a message that came as a file; closes it at the end."""
        return bodies.Download(self._work.files, message.fd, message.length, self._workers)

    async def read_bodies(
        self, messages: Sequence[Received | Peeked], use: Callable[[list[bytes]], T]
    ) -> T:
        """Read the bodies in a worker and hand them to `use` there; closes the messages. Raises
        StoreUnavailable."""
        return await self._in_worker(
            lambda: use([bodies.read_whole(self._work.files, each) for each in messages])
        )

    async def remove(
        self,
        queue: QueueName,
        message_id: MessageId,
        leases: frozenset[int] | None = None,
    ) -> None:
        """Remove a message; with `leases`, only under one of them.

        Raises QueueNotFound, MessageNotFound, LeaseMismatch, StoreUnavailable.
        """
        if leases is None:
            await self._committer.run(remove(self._work, queue, message_id))
            return

        async def attempt() -> Retry | None:
            return await self._committer.run(remove_leased(self._work, queue, message_id, leases))

        await self._fetches.until_free(message_id, attempt)

    async def remove_many(
        self,
        queue: QueueName,
        ids: Sequence[MessageId],
        leases: frozenset[int] | None = None,
    ) -> list[MQError | None]:
        """Remove several messages under one barrier; what is wrong with each, None for those that
        are removed. Raises QueueNotFound, StoreUnavailable."""
        outcomes = await self._committer.run(remove_many(self._work, queue, ids, leases))
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, Retry):
                try:
                    await self.remove(queue, ids[number], leases)
                    outcomes[number] = None
                except MQError as error:
                    outcomes[number] = error
        return [outcome if isinstance(outcome, MQError) else None for outcome in outcomes]

    async def _in_worker(self, function: Callable[..., T], *arguments: object) -> T:
        return await bodies.in_worker(self._workers, function, *arguments)
