"""What both ways in have in common: their methods, and the messages that they return."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from mq import errors
from mq.errors import CommandFailed, ExitCode, MQError
from mq.lifecycle import PurgeScope, State
from mq.lines.ndjson import Line
from mq.names import MessageId, QueueName
from mq.properties import Properties

_EXIT_CODES: Mapping[type[MQError], ExitCode] = {
    errors.QueueNotFound: ExitCode.NOT_FOUND,
    errors.MessageNotFound: ExitCode.NOT_FOUND,
    errors.IdTaken: ExitCode.REFUSED,
    errors.TooOld: ExitCode.REFUSED,
    errors.QueueIsFifo: ExitCode.REFUSED,
    errors.InvalidBatch: ExitCode.REFUSED,
    errors.LeaseMismatch: ExitCode.REFUSED,
    errors.ClaimError: ExitCode.REFUSED,
    errors.InvalidName: ExitCode.USAGE,
    errors.InvalidRequest: ExitCode.USAGE,
    errors.BodyTooLarge: ExitCode.REFUSED,
    errors.PropertiesTooLarge: ExitCode.REFUSED,
    errors.PropertiesUnsupported: ExitCode.REFUSED,
    errors.StoreUnavailable: ExitCode.TRY_AGAIN,
}

NO_CHANGES: Mapping[str, str] = {}
"""No setting is changed. `mqctl` over HTTP loads nothing of the folders to say so."""


class QueueCounts(NamedTuple):
    """How many messages a queue has in each state. `oldest_age_seconds` is the age of the oldest
    ready one, None if none is ready. If it is `paused`, nobody receives them."""

    queue: str
    ready: int
    leased: int
    delayed: int
    oldest_age_seconds: float | None
    paused: bool = False

    @property
    def total(self) -> int:
        """The number of messages in all states."""
        return self.ready + self.leased + self.delayed


class Passed(NamedTuple):
    """How many messages were published to a queue and how many left it since some moment, as far as
    they were counted."""

    published: int
    gone: int


class QueueMove(NamedTuple):
    """A move of messages from one queue to another. With a `reason` they are dead letters there.
    With a `lease` only the message under it is moved, with `died_in` only those that died in that
    queue."""

    source: QueueName
    target: QueueName
    reason: str | None = None
    lease: int | None = None
    died_in: QueueName | None = None


class Readable(Protocol):
    """A body that is to be read to its end and closed."""

    def read(self, size: int = -1, /) -> bytes: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message as it was received, or looked at. `lease` is what `ack --lease` takes, None if
    there is no lease. Times are RFC 3339; `visible_at` is None for a ready message. A dead letter
    says where it is from and why it is one. `queue` says which of several queues that were asked
    has it. What is unknown is None."""

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
    queue: QueueName | None = None


class Access(Protocol):
    """A way to the queues. Every change is durable on return. Raises MQError."""

    def list_queues(self) -> list[QueueCounts]: ...

    def passed(self) -> Mapping[str, Passed]:
        """Return what is known of each queue; nothing where nothing is counted. Changes nothing."""

    def describe_queue(self, queue: QueueName) -> QueueCounts: ...

    def create_queue(self, queue: QueueName, changes: Mapping[str, str] = NO_CHANGES) -> bool:
        """Make a queue that has these settings from its first moment on, or change those of one
        that is there. Returns True if it is new."""

    def delete_queue(self, queue: QueueName) -> None: ...

    def purge(self, queue: QueueName, scope: PurgeScope) -> int:
        """Remove the queue's messages, and keep the queue. Returns how many messages that were."""

    def settings(self, queue: QueueName) -> dict[str, Any]:
        """Return the settings that the queue has, by name."""

    def change_settings(self, queue: QueueName, changes: Mapping[str, str]) -> None:
        """Change the settings that are named; an empty value takes one away."""

    def publish(
        self, queue: QueueName, body: Readable, model: Line, also: Sequence[QueueName] = ()
    ) -> MessageId:
        """Publish a message with that body, and like the model in all else, to all of these queues
        or none. Returns its id, even if it was published under that before."""

    def publish_batch(
        self, queue: QueueName, lines: bytes, also: Sequence[QueueName] = ()
    ) -> list[tuple[QueueName, MessageId]]:
        """Publish the lines of `application/x-ndjson` to all of these queues, all or nothing; a
        line may name another one than the first. Returns the queue and the id of each."""

    def begin_batch(self, queue: QueueName, lines: Sequence[Line]) -> Callable[[], list[MessageId]]:
        """Begin what `publish_batch` does. It ends when the caller calls the function that this
        returns. Before that the caller does nothing else with the queues."""

    def receive(
        self,
        queue: QueueName,
        visibility_seconds: float | None,
        wait_seconds: float = 0.0,
        then: Sequence[QueueName] = (),
    ) -> ShownMessage | None:
        """Take the oldest message under a lease, by default of the way's usual length, from the
        first of `queue` and `then` that has one. Waits for a message up to `wait_seconds`."""

    def touch(
        self, queue: QueueName, message_id: MessageId, seconds: float, lease: int | None
    ) -> str:
        """Let the current lease end this many seconds from now; `lease` None means any lease.
        Returns when that is."""

    def release(self, queue: QueueName, message_id: MessageId, lease: int | None) -> None:
        """Put a message back into its queue. If a lease is given, only under that one."""

    def move(self, move: QueueMove, limit: int) -> tuple[int, list[str]]:
        """Move the oldest ready messages, up to `limit` and MAX_MOVES; `lease` and `died_in` are
        not looked at. Returns how many were moved, and the ids of those that stay because the
        target has other messages with these ids."""

    def move_by_id(self, move: QueueMove, message_id: MessageId) -> None:
        """Move a message, whatever its state."""

    def remove(self, queue: QueueName, message_id: MessageId, lease: int | None) -> None:
        """Remove a message. If a lease is given, only under that one."""

    def peek(
        self, queue: QueueName, limit: int, state: State = State.READY
    ) -> Iterator[ShownMessage]:
        """Yield the oldest messages in that state. Changes nothing."""

    def peek_behind(self, queue: QueueName, after: MessageId, limit: int) -> Sequence[ShownMessage]:
        """Return some of the ready messages behind that one, which may be gone: at least one if
        there is one, and up to `limit`. Changes nothing."""

    def wait(self, seconds: float) -> None:
        """Wait, or less if something comes to a queue that was looked at."""

    def peek_at(self, queue: QueueName, message_id: MessageId) -> ShownMessage:
        """Return that message, whatever its state. Changes nothing."""

    def close(self) -> None: ...


def exit_code_of(error: MQError) -> ExitCode:
    """Return what kind of error this is, whichever way raised it: over HTTP it is a CommandFailed,
    on the folders one of the store."""
    return error.exit_code if isinstance(error, CommandFailed) else _EXIT_CODES[type(error)]


def in_own_words(text: str) -> str:
    """Return an error of the store with a command as the way out, in place of a request."""
    return re.sub(r"make it with PUT /(\S+)", r"make it with `mqctl create \1`", text)
