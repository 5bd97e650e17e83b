"""Store: the queues of one root for the event loop. It knows no HTTP, and HTTP knows no paths.

The committer runs operations on the folders. Workers do what takes long: listings, large bodies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

from mq.commit.committer import Committer
from mq.commit.operation import Done, Operation, Submitted
from mq.config import SECOND_NS
from mq.errors import MQError
from mq.lifecycle import Folder, PurgeScope, State
from mq.names import MessageId, QueueName
from mq.spool.queue.queue_settings import NO_CHANGES, QueueSettings
from mq.store import bodies, by_id, visibility
from mq.store.answer_memory import AnswerMemory, Share
from mq.store.background import Background
from mq.store.health import StoreHealth
from mq.store.joint import ForAll, JointOperation
from mq.store.moving import move_many
from mq.store.moving.move import MovedMessages, Moving
from mq.store.peeking import peek
from mq.store.peeking.peek_hidden import HiddenAsk, HiddenPeeks
from mq.store.peeking.peeked_message import PeekedMessage, close_peeked
from mq.store.publishing.own_id import Ids, check_publish_under
from mq.store.publishing.publish import MAX_BATCHES_AT_ONCE, Draft, Entry, Published
from mq.store.publishing.publisher import Publisher
from mq.store.publishing.readers import Queues
from mq.store.queue import purge, queues, settings
from mq.store.receiving.long_receive import LongPoll
from mq.store.receiving.oldest import Ask
from mq.store.receiving.receive import Receive, receive_some
from mq.store.receiving.received_message import Received
from mq.store.receiving.receives import Receives
from mq.store.removing.joint_removals import JointRemovals
from mq.store.removing.remove_many import removal, remove_many
from mq.store.removing.remove_under_lease import Removed
from mq.store.shared_state import Workspace
from mq.times import in_ns

T = TypeVar("T")


class Store:
    """One server's queues. Everything is durable on return, unless it says otherwise."""

    def __init__(self, work: Workspace, committer: Committer, workers: Executor) -> None:
        self._work, self._committer, self._workers = work, committer, workers
        self.max_body_bytes = work.config.max_body_bytes
        self.batch_slots = asyncio.Semaphore(MAX_BATCHES_AT_ONCE)
        self.answer_memory = AnswerMemory()
        self._receives = Receives(work, committer, self.answer_memory)
        self.health = StoreHealth(work, committer, workers, self._receives.waiting)
        self.put_back_left = self._receives.put_back_left
        self.stop_waiting = self._receives.waiting.stop
        self.submit_receive = self._receives.submit
        self.wait_for = self._receives.wait
        self.count_spare = self._receives.count_spare
        self.known_settings = work.settings.known
        self.give_back = self._receives.give_back
        self._publisher = Publisher(work, committer)
        self._removals = JointRemovals(work, committer)
        self._hidden_peeks = HiddenPeeks(work, committer)
        self.background = Background()

    async def close(self) -> None:
        """Wait for what runs in the background."""
        await self.background.close()
        await self._publisher.close()
        await self._receives.close()
        self._hidden_peeks.close()

    async def run(self, make: Callable[[Workspace], Operation[T]]) -> T:
        """Run an operation that a gateway makes. Raises what that raises, and StoreUnavailable."""
        return await self._committer.run(make(self._work))

    async def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a gateway's function of the workspace where operations run. Raises as `run` does."""
        return await self._committer.call(function, self._work, *arguments)

    def submit(self, make: Callable[[Workspace], Operation[object]], done: Done) -> None:
        """Run an operation as `run` does, for a caller that does not wait: see `submit_publish`."""
        self._committer.submit(Submitted(make(self._work), done))

    def joint(self, make: ForAll[T]) -> JointOperation[QueueName, T]:
        """Return an object that runs operations of a gateway, one for all requests of a round."""
        return JointOperation(self._committer, partial(make, self._work))

    # Queues

    async def create_queue(self, queue: QueueName, changes: Mapping[str, str] = NO_CHANGES) -> bool:
        """Make a queue unless it exists, and change some of its settings. Returns True if it is
        new. After a crash it may exist without them. Raises InvalidRequest, StoreUnavailable."""
        return await self._committer.run(queues.create_queue(self._work, queue, changes))

    async def delete_queue(self, queue: QueueName) -> None:
        """Delete a queue and its messages for good. Raises QueueNotFound, StoreUnavailable."""
        await self._committer.run(queues.delete_queue(self._work, queue))

    async def purge(self, queue: QueueName, scope: PurgeScope = PurgeScope.ALL) -> int:
        """Remove all messages that are there now. Returns how many. Raises QueueNotFound,
        StoreUnavailable."""
        return await self._committer.run(purge.purge(self._work, queue, scope))

    async def describe_queue(self, queue: QueueName) -> queues.QueueInfo:
        """Count a queue's messages. Raises QueueNotFound, StoreUnavailable."""
        return await self._committer.run(queues.describe_queue(self._work, queue))

    async def list_queues(self) -> list[QueueName]:
        """Return the names of all queues, sorted. Raises StoreUnavailable."""
        return await self._in_worker(self._work.spool.queue_names)

    async def read_settings(self, queue: QueueName) -> QueueSettings:
        """Return a queue's settings as they are now. Raises QueueNotFound, StoreUnavailable."""
        return await self._in_worker(settings.settings_of, self._work.spool, queue)

    async def change_settings(self, queue: QueueName, changes: Mapping[str, str]) -> None:
        """Change settings of a queue. Raises InvalidRequest, QueueNotFound, StoreUnavailable."""
        await self._committer.run(settings.change_settings(self._work, queue, changes))

    # Messages

    async def check_publish(self, queue: QueueName, length: int = 0, ids: Ids = (None,)) -> None:
        """Raise what a publish of `length` bytes under `ids` would raise, before its body comes."""
        await self._committer.run(check_publish_under(self._work, queue, ids, length))

    def open_upload(self) -> bodies.Upload:
        """Return an upload for a body that is too large for memory."""
        spool = self._work.spool
        place = spool.files, spool.fd(Folder.NEW), spool.file_mode
        return bodies.Upload(*place, self._workers, self._work.floor)

    async def publish(
        self, queue: QueueName, draft: Draft, also: Queues = (), removes: Removed = None
    ) -> Published:
        """Publish to all of these queues and remove `removes`, or do nothing. Closes the draft's
        file. Raises QueueNotFound, StoreUnavailable, IdTaken, MessageNotFound, LeaseMismatch."""
        return await self._publisher.publish(queue, draft, also, removes)

    def submit_publish(
        self, queue: QueueName, draft: Draft, done: Done, also: Queues = (), removes: Removed = None
    ) -> None:
        """Publish a small body as `publish` does, for a caller that does not wait. `done` gets what
        that returns or raises, on the event loop, never at once."""
        self._publisher.submit(queue, draft, done, also, removes)

    async def publish_batch(
        self, queue: QueueName, entries: Sequence[Entry], also: Queues = (), removes: Removed = None
    ) -> list[Published]:
        """Publish a batch as `publish` does a message. Raises as that does."""
        return await self._publisher.publish_batch(queue, entries, also, removes)

    def submit_batch(
        self, queue: QueueName, entries: Sequence[Entry], done: Done, also: Queues = ()
    ) -> None:
        """Publish a batch, for a caller that does not wait. `done` gets what `publish_batch`
        returns or raises, on the event loop, never at once."""
        self._publisher.submit_batch(queue, entries, done, also)

    async def receive(
        self, queue: QueueName, visibility_seconds: float | None, wait_seconds: float = 0.0
    ) -> Received | None:
        """Take the oldest message for `visibility_seconds`; None means the queue's usual time.
        Returns None if none comes within `wait_seconds`. If the caller is cancelled, the message is
        put back. The caller closes it. Raises QueueNotFound, StoreUnavailable."""
        taken = await self.receive_many(queue, 1, visibility_seconds, wait_seconds)
        return taken[0] if taken else None

    async def receive_many(
        self,
        queue: QueueName,
        limit: int,
        visibility_seconds: float | None,
        wait: float | LongPoll = 0.0,
        share: Share | None = None,
        *,
        then: Sequence[QueueName] = (),
        by: Receive = receive_some,
    ) -> list[Received]:
        """Receive as `receive` does, from the first of `queue` and `then` that has any, as `by`
        chooses: up to `limit` messages and MAX_BODIES_BYTES of bodies, or what `share` holds."""
        ask = Ask(in_ns(visibility_seconds), limit, share=share)
        return await self._receives.receive((queue, *then), ask, wait, by)

    async def take(
        self,
        queue: QueueName,
        message_id: MessageId,
        visibility_seconds: float | None,
        guard: by_id.Guard | None = None,
    ) -> Received:
        """Take that message, or prolong its lease under a guard; see `mq.store.by_id`. Raises
        QueueNotFound, MessageNotFound, LeaseMismatch, StoreUnavailable."""
        taking = by_id.take(self._work, queue, message_id, in_ns(visibility_seconds), guard)
        return await self._receives.take(taking)

    async def release_by_id(
        self, queue: QueueName, message_id: MessageId, guard: by_id.Guard | None = None
    ) -> None:
        """Put that message back into its queue. If a crash undoes that, the message comes back when
        it is due. Raises what `take` raises."""
        await self._committer.run(by_id.release(self._work, queue, message_id, guard))

    async def change_visibility(
        self, queue: QueueName, message_id: MessageId, lease: int, seconds: float
    ) -> bool:
        """Hide a received message for `seconds`, or show it at once for 0; the lease goes on.
        Returns False if it is over. Raises QueueNotFound, StoreUnavailable."""
        ns = int(seconds * SECOND_NS)
        changing = visibility.change_visibility(self._work, queue, message_id, lease, ns)
        return await self._committer.run(changing)

    async def put_back(self, received: Received) -> None:
        """Put back a message that its receiver never got. Never raises: its lease ends anyway."""
        await self._receives.put_back(received)

    async def peek(
        self,
        queue: QueueName,
        limit: int,
        after: MessageId | None = None,
        share: Share | None = None,
        state: State = State.READY,
    ) -> list[PeekedMessage]:
        """Look at the oldest messages in a state, at least at one, or at those behind `after`. The
        caller closes them. Raises QueueNotFound, MessageNotFound, StoreUnavailable."""
        if state is not State.READY:
            return await self._hidden_peeks.peek(HiddenAsk(queue, state, limit, share), after)
        ready = peek.peek(self._work, queue, limit, after, share)
        return await self._committer.run(ready, partial(close_peeked, self._work.files))

    async def peek_at(self, queue: QueueName, message_id: MessageId) -> PeekedMessage:
        """Look at a message: ready, leased or delayed. The caller closes it. Raises QueueNotFound,
        MessageNotFound, StoreUnavailable."""
        looking = peek.peek_at(self._work, queue, message_id)
        return await self._committer.run(looking, lambda each: each.close(self._work.files))

    def open_download(self, message: Received | PeekedMessage) -> bodies.Download:
        """Return the body of a message that came as a file. It is closed at the end."""
        return bodies.Download(self._work.files, message.fd, message.length, self._workers)

    async def read_bodies(
        self, messages: Sequence[Received | PeekedMessage], use: Callable[[Iterable[bytes]], T]
    ) -> T:
        """Read the bodies, in a worker unless they are in memory, and pass them to `use`. Closes
        the messages, even if that fails or the caller is cancelled. Raises StoreUnavailable."""
        read, files = bodies.read_all, self._work.files
        if bodies.are_few_in_memory(messages):
            return read(files, messages, use)
        return await self._in_worker(read, files, messages, use, abandoned=lambda _: None)

    async def remove(
        self, queue: QueueName, message_id: MessageId, leases: frozenset[int] | None = None
    ) -> None:
        """Remove a message. With `leases` it is removed only under one of them. Raises
        QueueNotFound, MessageNotFound, LeaseMismatch, StoreUnavailable."""
        await self._committer.run(removal(self._work, queue, message_id, leases))

    def submit_remove(
        self, queue: QueueName, message_id: MessageId, leases: frozenset[int] | None, done: Done
    ) -> None:
        """Remove as `remove` does, for a caller that does not wait: see `submit_publish`."""
        self._removals.submit((queue, message_id, leases), done)

    async def remove_many(
        self, queue: QueueName, ids: Sequence[MessageId], leases: frozenset[int] | None = None
    ) -> list[MQError | None]:
        """Remove several messages under one barrier. Returns what is wrong with each, None for
        those that are removed. Raises QueueNotFound, StoreUnavailable."""
        return await self._committer.run(remove_many(self._work, queue, ids, leases))

    def submit_remove_many(
        self, queue: QueueName, ids: Sequence[MessageId], leases: frozenset[int] | None, done: Done
    ) -> None:
        """Remove as `remove_many` does, for a caller that does not wait: see `submit_publish`."""
        self._committer.submit(Submitted(remove_many(self._work, queue, ids, leases), done))

    async def move(self, moving: Moving, limit: int) -> MovedMessages:
        """Move the oldest ready messages from one queue to another, up to `limit` and MAX_MOVES.
        Raises InvalidRequest, QueueNotFound, StoreUnavailable."""
        return await self._committer.run(move_many.move_ready(self._work, moving, limit))

    async def move_by_id(
        self, moving: Moving, ids: Sequence[MessageId], guard: by_id.Guard | None = None
    ) -> list[MQError | None]:
        """Move these messages, whatever their state; with a guard, only those that it admits.
        Returns what is wrong with each, None for those that are moved. Raises InvalidRequest,
        QueueNotFound, StoreUnavailable."""
        return await self._committer.run(move_many.move_by_id(self._work, moving, ids, guard))

    async def _in_worker(
        self, call: Callable[..., T], *arguments: object, abandoned: bodies.Abandoned[T] = None
    ) -> T:
        return await bodies.in_worker(self._workers, call, *arguments, abandoned=abandoned)
