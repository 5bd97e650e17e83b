"""`Queue`: what can be done with one queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from mq.client import by_id, moves, operations, publishing
from mq.client.arguments import queue_name, queue_names
from mq.client.blocking.message import Message
from mq.client.blocking.session import Session
from mq.client.blocking.worker import Worker
from mq.client.errors import ClientError
from mq.client.messages import (
    Body,
    Counts,
    NewMessage,
    Peeked,
    PeekedState,
    PurgedState,
    new_messages,
)
from mq.client.settings import SettingValue
from mq.config import MAX_MOVES, WORKER_WAIT_SECONDS
from mq.names import QueueName
from mq.properties import NO_PROPERTIES, Properties


class Queue:
    """One queue of a server. All methods raise ClientError; docs/client.md says which ones."""

    def __init__(self, session: Session, name: QueueName) -> None:
        self._session = session
        self._context = session.context
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def create(self, settings: Mapping[str, SettingValue] | None = None) -> bool:
        """Make the queue if it does not exist, and change the settings that are named, as in
        `{"visibility": 60, "max-receives": 5}`; None takes a setting away. Returns whether the
        queue is new.

        Raises BadRequest for a wrong setting; nothing is made or changed then.
        """
        operation = operations.create_queue(self._context, self.name, settings)
        return self._session.run(operation)

    def settings(self) -> dict[str, Any]:
        """Return the settings that the queue has, by name. Raises QueueNotFound."""
        return self._session.run(operations.read_settings(self._context, self.name))

    def delete(self) -> None:
        """Delete the queue and all its messages. Raises QueueNotFound."""
        self._session.run(operations.delete_queue(self._context, self.name))

    def purge(self, state: PurgedState = "all") -> int:
        """Remove all messages, including leased and delayed ones, or with the state "ready" only
        the ready ones. The queue stays. Returns how many messages that were. Raises QueueNotFound.
        """
        return self._session.run(operations.purge(self._context, self.name, state))

    def counts(self) -> Counts:
        """Return how many messages there are in each state. Raises QueueNotFound."""
        return self._session.run(operations.count(self._context, self.name))

    def publish(
        self,
        body: Body,
        *,
        content_type: str | None = None,
        delay: float | None = None,
        message_id: str | None = None,
        properties: Properties = NO_PROPERTIES,
        also: Iterable[str] = (),
    ) -> str:
        """Publish a message and return its id. On return it is on stable media: in this queue, and
        under the same id in those of `also`, or else in none.

        It is hidden for `delay` seconds; None leaves that to the queue's settings. Text is sent as
        UTF-8, as text/plain unless `content_type` says otherwise. Without `message_id` the client
        makes one up, so that a publish that is tried again makes no second message. `properties`
        stay with the message, as in `{"x-meta-shop": "north"}`.

        Raises QueueNotFound, BodyTooLarge, BadRequest for wrong properties, and IdTaken if another
        message was published under the id.
        """
        queues = queue_names(self.name, "also", also)
        message = NewMessage(body, content_type, delay, message_id, properties)
        return self._session.run(publishing.publish(self._context, queues, message))

    def publish_many(
        self, messages: Iterable[Body | NewMessage], *, also: Iterable[str] = ()
    ) -> list[str]:
        """Publish messages in order, in batches of up to 1,000 messages, copies for the queues of
        `also` included, and 16 MiB, and return their ids. Each batch is published whole or not at
        all, also if some messages name another `queue`.

        If this raises, the batches before the one that failed are published. Raises what `publish`
        raises.
        """
        queues = queue_names(self.name, "also", also)
        drafts = new_messages(messages)
        return list(self._session.run(publishing.publish_many(self._context, queues, drafts)))

    def receive(
        self, *, wait: float = 0.0, visibility: float | None = None, then: Iterable[str] = ()
    ) -> Message | None:
        """Receive the oldest ready message under a lease. Returns None if none comes within `wait`
        seconds (up to 60).

        It is hidden from all others for `visibility` seconds, by default as the queue's setting or
        the server's `--visibility` says. If this queue has none, it comes from the first of the
        queues in `then` that has one, as its `queue` says. Raises QueueNotFound.
        """
        queues = queue_names(self.name, "then", then)
        found = self._session.run(operations.receive(self._context, queues, wait, visibility))
        return None if found is None else Message(self._session, found)

    def receive_many(
        self,
        max: int,
        *,
        wait: float = 0.0,
        visibility: float | None = None,
        then: Iterable[str] = (),
    ) -> list[Message]:
        """Receive up to `max` messages (1 to 1,000), each under a lease of its own, all of the same
        queue. This waits only for the first one. Otherwise it is like `receive`."""
        queues = queue_names(self.name, "then", then)
        found = self._session.run(
            operations.receive_many(self._context, queues, max, wait, visibility)
        )
        return [Message(self._session, each) for each in found]

    def messages(
        self,
        *,
        wait: float | None = None,
        visibility: float | None = None,
        then: Iterable[str] = (),
    ) -> Iterator[Message]:
        """Receive messages one by one, until none came for `wait` seconds; None means for ever."""
        once = WORKER_WAIT_SECONDS if wait is None else wait
        others = queue_names(self.name, "then", then)[1:]
        while (
            message := self.receive(wait=once, visibility=visibility, then=others)
        ) or wait is None:
            if message is not None:
                yield message

    def peek(
        self, max: int = 1, after: str | None = None, *, state: PeekedState = "ready"
    ) -> list[Peeked]:
        """Look at up to `max` messages (1 to 1,000) that are ready, leased or delayed, oldest
        first, or at those that follow the message `after`. Changes nothing. Raises MessageNotFound
        if nothing is left of `after`, BadRequest for another state."""
        return self._session.run(operations.peek(self._context, self.name, max, after, state))

    def peek_at(self, message_id: str) -> Peeked:
        """Look at that message, ready, leased or delayed. Changes nothing. Raises MessageNotFound
        if it is none of these."""
        return self._session.run(operations.peek_at(self._context, self.name, message_id))

    def move(self, source: str, *, max: int = MAX_MOVES, reason: str | None = None) -> int:
        """Move up to `max` ready messages (1 to 1,000) of the queue `source` to this queue, oldest
        first, as they are. Returns how many were moved. On return that is on stable media.

        Each takes the place that its publication time gives it, and its count begins at 0. With a
        reason they are dead letters here, and say so. One whose id this queue has already stays
        where it is. Without a reason the move ends at a message that this queue would remove at
        once, because of its `ttl`. Raises QueueNotFound, and TooOld if that is the first one.
        """
        name = queue_name("source", source)
        moving = moves.move(self._context, self.name, name, max, reason)
        return self._session.run(moving)[0]

    def move_many(
        self, source: str, ids: Iterable[str], *, reason: str | None = None
    ) -> dict[str, ClientError]:
        """Move these messages of the queue `source` to this queue, ready, leased or delayed, in
        requests of up to 1,000. Otherwise it is like `move`.

        Returns those that were not moved, each with the reason: MessageNotFound if it is not in
        `source`, IdTaken if this queue has another message with its id, TooOld if this queue would
        remove it at once, Unavailable if there is no room. Raises QueueNotFound, and Unavailable if
        there is only one id.
        """
        name = queue_name("source", source)
        moving = moves.move_many(self._context, self.name, name, ids, reason)
        return self._session.run(moving)

    def ack_many(self, leases: Mapping[str, str]) -> dict[str, ClientError]:
        """Remove messages for good, in requests of up to 200; `leases` has the lease of each id.

        Returns those that were not removed, each with the reason: LeaseLost if another receiver has
        the message, MessageNotFound if it is gone, Unavailable if another process holds it. Raises
        QueueNotFound, and Unavailable if there is only one id.
        """
        return self._session.run(by_id.acknowledge_many(self._context, self.name, leases))

    def remove(self, message_id: str) -> None:
        """Remove a message for good, even if it is leased. To remove a message that you received,
        use its `ack`. Raises MessageNotFound."""
        self._session.run(by_id.remove(self._context, self.name, message_id))

    def worker(
        self,
        handle: Callable[[Message], object],
        *,
        concurrency: int = 1,
        visibility: float | None = None,
        max: int | None = None,
        then: Iterable[str] = (),
    ) -> Worker:
        """Return a worker that handles messages of the queue, at most `max` if that is given, in
        `concurrency` threads; `run` or `run_until_empty` starts it. Each time it finds none here,
        it takes one of the first queue in `then` that has one."""
        queues = queue_names(self.name, "then", then)
        return Worker(self._session, queues, handle, concurrency, visibility, limit=max)
