"""Messages and counts as data: what a client is given to publish, and what it returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from mq.client.arguments import by_name, queue_name, seconds, text
from mq.client.errors import BadRequest
from mq.errors import InvalidRequest
from mq.lines import ndjson
from mq.names import MessageId, QueueName
from mq.properties import NO_PROPERTIES, Properties, check_properties

PurgedState = Literal["all", "ready"]
"""Which messages a purge removes."""

PeekedState = Literal["ready", "leased", "delayed"]
"""Which messages a peek shows."""

Body = bytes | bytearray | memoryview | str
"""Text is sent as UTF-8."""

_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to publish with others, with the parameters of `publish`. `queue` is its queue, if
    that is another one than the others are for."""

    body: Body
    content_type: str | None = None
    delay: float | None = None
    message_id: str | None = None
    properties: Properties = field(default_factory=dict)
    queue: str | None = None


class Counts(NamedTuple):
    """How many messages of a queue are in each state. `oldest_age_seconds` is the age of the oldest
    ready one, None if none is ready."""

    queue: str
    ready: int
    leased: int
    delayed: int
    oldest_age_seconds: float | None


@dataclass(slots=True)
class Delivery:
    """A message as it was received.

    `receive_count` is None where the server's file system keeps no count. Times are by the server's
    clock. `visibility` is what was asked for, None for the server's choice. The lease lasts for
    `lease_seconds` from `leased_at`, by the monotonic clock of this machine: it is over here no
    later than there, except for the time that the answer was under way.
    """

    queue: QueueName
    id: MessageId
    body: bytes
    content_type: str
    lease: str
    receive_count: int | None
    published_at: datetime
    visible_at: datetime
    visibility: float | None
    lease_seconds: float
    leased_at: float
    properties: Properties = field(default_factory=dict)
    dead_from: str | None = None
    dead_reason: str | None = None
    properties_left_out: int = 0  # too long for headers

    @property
    def lease_ends_at(self) -> float:
        return self.leased_at + self.lease_seconds


class Peeked(NamedTuple):
    """A message that was looked at and not taken. `visible_at` is None if it is ready. A damaged
    one is set aside when it would be received. A dead letter says where it is from, and why."""

    id: MessageId
    body: bytes
    content_type: str
    receive_count: int | None
    published_at: datetime
    is_damaged: bool = False
    properties: Properties = NO_PROPERTIES
    dead_from: str | None = None
    dead_reason: str | None = None
    state: str = "ready"
    visible_at: datetime | None = None


class Lines(NamedTuple):
    """Lines that are ready to be sent as a batch."""

    data: bytes
    ids: list[MessageId]


def bytes_of(body: Body) -> bytes:
    """Return the body as bytes. Raises TypeError for a number: bytes(5) would be five zeros."""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise TypeError(f"a body is bytes or str, not {type(body).__name__}; json.dumps makes JSON")


def new_messages(messages: Iterable[Body | NewMessage]) -> Iterator[NewMessage]:
    """Yield the messages. Raises TypeError for one message in place of many."""
    if isinstance(messages, str | bytes | bytearray | memoryview | NewMessage):
        raise TypeError("publish_many takes a list of messages; publish takes one")
    if isinstance(messages, Mapping) or not isinstance(messages, Iterable):
        raise TypeError(f"publish_many takes a list of messages, not {type(messages).__name__}")
    return (each if isinstance(each, NewMessage) else NewMessage(each) for each in messages)


def content_type_of(message: NewMessage) -> str | None:
    """Return the type to send. Raises BadRequest for one that HTTP cannot carry, and TypeError."""
    kind = message.content_type
    if kind is None:
        return _TEXT if isinstance(message.body, str) else None
    text("content_type", kind)
    if not (kind.isascii() and kind.isprintable()):
        raise BadRequest(f"content_type {kind!r}: a type is printable ASCII characters")
    return kind


def properties_of(message: NewMessage) -> dict[str, str]:
    """Return the properties to send, with names in lower case. Raises BadRequest, and TypeError."""
    if not message.properties:
        return {}
    by_name("properties", message.properties, '{"x-meta-shop": "north"}')
    for name, value in message.properties.items():
        if not isinstance(value, str):
            kind = type(value).__name__
            raise TypeError(f"property {name!r}: a value is str, not {kind}; convert it with str()")
    try:
        return dict(check_properties(message.properties.items()))
    except InvalidRequest as error:
        raise BadRequest(str(error)) from None


def write_line(message: NewMessage, message_id: MessageId) -> bytes:
    """Return a message as a line of a batch. Raises what `publish` raises for its arguments."""
    if message.delay is not None:
        seconds("delay", message.delay)
    fields = {
        "id": message_id,
        "queue": None if message.queue is None else queue_name("queue", message.queue),
        "content_type": content_type_of(message),
        "delay": message.delay,
        "properties": properties_of(message) or None,
    }
    return ndjson.write_line(fields, bytes_of(message.body))
