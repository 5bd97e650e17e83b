"""Publish from the event loop: one after the other under one id, and to the end even if the caller
is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from mq.commit.awaited import settle
from mq.commit.committer import Committer
from mq.commit.operation import Done, Submitted
from mq.config import SMALL_BODY_BYTES
from mq.names import MessageId, QueueName
from mq.store.joint import Joint, JointOperation, tell_outcome
from mq.store.publishing.copies import (
    ToCopy,
    most_in_one_set,
    publish_copies,
    publish_entries,
    publish_one,
)
from mq.store.publishing.publish import Draft, Entry, Published
from mq.store.publishing.publish_each import Outcome, ToPublish, publish_each
from mq.store.publishing.readers import Queues
from mq.store.removing.remove_under_lease import Removed
from mq.store.shared_state import Workspace

T = TypeVar("T")


class Publisher:
    """Everything that is published on one server."""

    def __init__(self, work: Workspace, committer: Committer) -> None:
        self._work = work
        self._committer = committer
        self._joint: Joint[ToPublish] = Joint(committer, self._publish_each)
        self._copies: JointOperation[Queues, ToCopy] = JointOperation(
            committer, partial(publish_copies, work), most_in_one_set
        )
        self._tasks: set[asyncio.Task[Any]] = set()
        self._turns: WeakValueDictionary[tuple[QueueName, MessageId], asyncio.Lock] = (
            WeakValueDictionary()
        )

    async def publish(
        self,
        queue: QueueName,
        draft: Draft,
        also: Queues = (),
        removes: Removed = None,
    ) -> Published:
        """Publish one message, to the queues in `also` too, and remove `removes`: all or nothing.
        Raises QueueNotFound, StoreUnavailable, IdTaken, MessageNotFound, LeaseMismatch.

        The file of a draft is closed when no operation uses it any more. If the caller is cancelled
        before that, the message is published all the same.
        """
        if draft.body is not None:
            return await self._publish(queue, draft, also, removes)
        return await self._see_through(self._publish_file(queue, draft, also, removes))

    def submit(
        self, queue: QueueName, draft: Draft, done: Done, also: Queues = (), removes: Removed = None
    ) -> None:
        """Publish one message, its small body in memory, as `publish` does. `done` gets what that
        returns or raises."""
        if removes is not None:
            self._publish_alone(queue, draft, done, also, removes)
        elif also:
            self._copies.submit((queue, *also), (draft, done), done)
        else:
            self._joint.ask((queue, draft, done))

    def _publish_each(self, asked: Sequence[ToPublish]) -> None:
        if len(asked) == 1:
            self._publish_alone(*asked[0])
            return
        telling = partial(self._tell, asked)
        self._committer.submit(Submitted(publish_each(self._work, asked), telling, len(asked)))

    def _publish_alone(
        self, queue: QueueName, draft: Draft, done: Done, also: Queues = (), removes: Removed = None
    ) -> None:
        publishing = publish_one(self._work, queue, draft, also, removes)
        self._committer.submit(Submitted(publishing, done))

    def _tell(
        self,
        asked: Sequence[ToPublish],
        outcomes: Sequence[Outcome] | None,
        error: BaseException | None,
    ) -> None:
        all_outcomes = [error] * len(asked) if outcomes is None else outcomes
        for each, outcome in zip(asked, all_outcomes, strict=True):
            if outcome is None:
                self._publish_alone(*each)
            else:
                tell_outcome(each[2], outcome)

    async def _publish_file(
        self, queue: QueueName, draft: Draft, also: Queues, removes: Removed
    ) -> Published:
        try:
            return await self._publish(queue, draft, also, removes)
        finally:
            self._work.files.close(draft.fd)

    async def _publish(
        self, queue: QueueName, draft: Draft, also: Queues, removes: Removed
    ) -> Published:
        publishing = publish_one(self._work, queue, draft, also, removes)
        if draft.message_id is None:
            if also and removes is None and draft.length <= SMALL_BODY_BYTES:
                return await self._publish_with_others((queue, *also), draft)
            return await self._committer.run(publishing)
        # Publishers of one id take turns on this server. Beside other servers the operation tries
        # again and again.
        turn = self._turns.setdefault((queue, draft.message_id), asyncio.Lock())
        async with turn:
            return await self._committer.run(publishing)

    async def _publish_with_others(self, queues: Queues, draft: Draft) -> Published:
        future: asyncio.Future[Published] = asyncio.get_running_loop().create_future()
        done = partial(settle, future, None)
        self._copies.submit(queues, (draft, done), done)
        return await future

    async def publish_batch(
        self,
        queue: QueueName,
        entries: Sequence[Entry],
        also: Queues = (),
        removes: Removed = None,
    ) -> list[Published]:
        """Publish all of a batch, in that order, to the queue and to those in `also`, and remove
        `removes`; or do nothing.

        If the caller is cancelled, it is published all the same. Raises what `publish` raises.
        """
        publishing = publish_entries(self._work, queue, entries, also, removes)
        return await self._committer.run(publishing)

    def submit_batch(
        self, queue: QueueName, entries: Sequence[Entry], done: Done, also: Queues = ()
    ) -> None:
        """Publish a batch. `done` gets what `publish_batch` returns or raises."""
        self._committer.submit(Submitted(publish_entries(self._work, queue, entries, also), done))

    async def _see_through(self, publishing: Coroutine[Any, Any, T]) -> T:
        """Go on to the end of `publishing`, even if the caller is cancelled meanwhile."""
        task = asyncio.create_task(publishing)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return await asyncio.shield(task)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # The caller that asked for it may be gone.

    async def close(self) -> None:
        """Wait for the publishes whose callers are gone."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
