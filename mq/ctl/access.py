"""What both ways in take and give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from mq.lifecycle import PurgeScope
from mq.lines.ndjson import Line
from mq.names import MessageId, QueueName
from mq.properties import NO_PROPERTIES, Properties


class QueueCounts(NamedTuple):
    """How many messages a queue has in each state; `oldest_age_seconds` is that of the oldest
    ready one, None if none is ready."""

    queue: str
    ready: int
    leased: int
    delayed: int
    oldest_age_seconds: float | None


class Readable(Protocol):
    """A body, to be read to its end and closed."""

    def read(self, size: int = -1, /) -> bytes: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message as it was received, or looked at. `lease` is what `ack --lease` takes, None without
    one; times are RFC 3339, `visible_at` None for a ready one. A dead letter says where it is from
    and why it is one. Unknown is None."""

    message_id: str
    state: str
    lease: str | None
    receive_count: int | None
    content_type: str
    published_at: str
    visible_at: str | None
    length: int
    body: Readable
    is_damaged: bool = False
    properties: Properties = field(default_factory=dict)
    dead_from: str | None = None
    dead_reason: str | None = None


class Access(Protocol):
    """A way to the queues. Every change is durable on return. Raises MQError."""

    def list_queues(self) -> list[QueueCounts]: ...

    def describe_queue(self, queue: QueueName) -> QueueCounts: ...

    def create_queue(self, queue: QueueName) -> bool:
        """True if the queue is new."""

    def delete_queue(self, queue: QueueName) -> None: ...

    def purge(self, queue: QueueName, scope: PurgeScope) -> int:
        """Remove the queue's messages, and keep it; returns how many they were."""

    def settings(self, queue: QueueName) -> dict[str, Any]:
        """Those that the queue has, by name."""

    def change_settings(self, queue: QueueName, changes: Mapping[str, str]) -> None:
        """Change those that are named; an empty value takes one away."""

    def publish(
        self,
        queue: QueueName,
        body: Readable,
        content_type: str | None,
        message_id: MessageId | None = None,
        delay_seconds: float | None = None,
        *,
        properties: Properties = NO_PROPERTIES,
    ) -> MessageId:
        """Publish under the caller's id or a new one, hidden for that long; None leaves that to the
        queue. Returns the id, even if the same message was published under it before."""

    def publish_batch(self, queue: QueueName, lines: bytes) -> list[MessageId]:
        """Publish the lines of `application/x-ndjson`, all or nothing. Returns the ids."""

    def begin_batch(self, queue: QueueName, lines: Sequence[Line]) -> Callable[[], list[MessageId]]:
        """As `publish_batch`, which ends when the caller calls what this returns; it does nothing
        else with the queues before that."""

    def receive(
        self, queue: QueueName, visibility_seconds: float | None, wait_seconds: float = 0.0
    ) -> ShownMessage | None:
        """Take the oldest message under a lease, the way's usual one for None; wait for one."""

    def touch(
        self, queue: QueueName, message_id: MessageId, seconds: float, lease: int | None
    ) -> str:
        """Let the current lease end this many seconds from now, any lease if `lease` is None;
        returns when that is."""

    def release(self, queue: QueueName, message_id: MessageId, lease: int | None) -> None:
        """Put a message back into its queue; with a lease, only under that one."""

    def move(
        self, source: QueueName, target: QueueName, limit: int, reason: str | None
    ) -> tuple[int, list[str]]:
        """Move the oldest ready messages, up to `limit` and MAX_MOVES. Returns how many were moved,
        and ids of those that stay, because the target has other messages of these ids."""

    def move_by_id(
        self,
        source: QueueName,
        target: QueueName,
        message_id: MessageId,
        *,
        reason: str | None,
        lease: int | None,
    ) -> None:
        """Move a message, whatever its state; with a lease, only under that one."""

    def remove(self, queue: QueueName, message_id: MessageId, lease: int | None) -> None:
        """Remove a message; with a lease, only under that one."""

    def peek(self, queue: QueueName, limit: int) -> Iterator[ShownMessage]:
        """The oldest ready messages. Changes nothing."""

    def peek_at(self, queue: QueueName, message_id: MessageId) -> ShownMessage:
        """That message, whatever its state. Changes nothing."""

    def close(self) -> None: ...
