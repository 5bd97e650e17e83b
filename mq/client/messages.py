"""Messages and counts as data: what goes to a server, and what comes from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from mq.client.errors import BadRequest, ClientError, UnexpectedAnswer
from mq.client.own_ids import read_http_date
from mq.client.problems import error_of
from mq.client.wire import ServerAnswer
from mq.config import DEFAULT_CONTENT_TYPE
from mq.errors import InvalidRequest
from mq.lines import ndjson
from mq.names import MessageId, QueueName
from mq.properties import NO_PROPERTIES, Properties, check_properties, is_property

Body = bytes | bytearray | memoryview | str
"""Text is sent as UTF-8."""

_TEXT = "text/plain; charset=utf-8"
_SHORTEST_LEASE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to publish with others, with the parameters of `publish`."""

    body: Body
    content_type: str | None = None
    delay: float | None = None
    message_id: str | None = None
    properties: Properties = field(default_factory=dict)


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
    return (each if isinstance(each, NewMessage) else NewMessage(each) for each in messages)


def content_type_of(message: NewMessage) -> str | None:
    if message.content_type is None and isinstance(message.body, str):
        return _TEXT
    return message.content_type


def properties_of(message: NewMessage) -> dict[str, str]:
    """Return the properties to send, with names in lower case. Raises BadRequest."""
    if not message.properties:
        return {}
    try:
        return dict(check_properties(message.properties.items()))
    except InvalidRequest as error:
        raise BadRequest(str(error)) from None


def write_line(message: NewMessage, message_id: MessageId) -> bytes:
    """Return a message as a line of a batch."""
    fields = {
        "id": message_id,
        "content_type": content_type_of(message),
        "delay": message.delay,
        "properties": properties_of(message) or None,
    }
    return ndjson.write_line(fields, bytes_of(message.body))


def read_delivery(queue: QueueName, answer: ServerAnswer, asked_seconds: float | None) -> Delivery:
    """Return the message in an answer. Raises UnexpectedAnswer."""
    headers = answer.headers
    fields = {
        "id": headers.get("x-message-id"),
        "content_type": headers.get("content-type"),
        "lease": headers.get("etag", "").strip('"'),
        "receive_count": headers.get("x-receive-count"),
        "published_at": headers.get("x-published-at"),
        "visible_at": headers.get("x-visible-at"),
        "properties": {name: value for name, value in headers.items() if is_property(name)},
        "dead_from": headers.get("x-dead-from"),
        "dead_reason": headers.get("x-dead-reason"),
        "properties_left_out": headers.get("x-properties-left-out", 0),
    }
    return _delivery(queue, fields, answer.body, answer, asked_seconds)


def read_deliveries(
    queue: QueueName, answer: ServerAnswer, asked_seconds: float | None
) -> list[Delivery]:
    """Return the messages in an answer with a line for each. Raises UnexpectedAnswer."""
    found = []
    for line in answer.body.splitlines():
        fields = document_in(line)
        found.append(_delivery(queue, fields, _body(fields), answer, asked_seconds))
    return found


def read_peeked(answer: ServerAnswer) -> list[Peeked]:
    """Return the ready messages in an answer. Raises UnexpectedAnswer."""
    found = []
    for line in answer.body.splitlines():
        fields = document_in(line)
        due = fields.get("visible_at")
        try:
            found.append(
                Peeked(
                    MessageId(str(fields["id"])),
                    _body(fields),
                    fields.get("content_type") or DEFAULT_CONTENT_TYPE,
                    fields.get("receive_count"),
                    datetime.fromisoformat(fields["published_at"]),
                    fields.get("damaged") is True,
                    _properties(fields),
                    fields.get("dead_from"),
                    fields.get("dead_reason"),
                    str(fields["state"]),
                    due and datetime.fromisoformat(due),
                )
            )
        except (ValueError, LookupError, TypeError, AttributeError):
            raise unexpected("is not a message") from None
    return found


def read_failures(answer: ServerAnswer) -> dict[str, ClientError]:
    """Return the messages that were not removed or moved, each with its error. One that is gone
    when the request is repeated counts as done by the try before. Raises UnexpectedAnswer."""
    failed = {}
    for line in answer.body.splitlines():
        fields = document_in(line)
        status = fields.get("status")
        if "id" not in fields or not isinstance(status, int):
            raise unexpected("has a line that is not the outcome of a removal")
        if status >= 300 and not (status == 404 and answer.is_repeated):
            failed[str(fields["id"])] = error_of(answer._replace(status=status, body=line))
    return failed


def read_visible_at(answer: ServerAnswer) -> datetime:
    """Return when the message becomes visible. Raises UnexpectedAnswer."""
    try:
        return datetime.fromisoformat(answer.headers["x-visible-at"])
    except (ValueError, LookupError):
        raise unexpected("has no X-Visible-At") from None


def read_counts(answer: ServerAnswer) -> Counts:
    """Return the counts in an answer. Raises UnexpectedAnswer."""
    return counts_in(document_in(answer.body))


def counts_in(document: Mapping[str, Any]) -> Counts:
    """Return the counts in a document. Raises UnexpectedAnswer."""
    try:
        return Counts(*(document[name] for name in Counts._fields))
    except (LookupError, TypeError):
        raise unexpected("describes no queue") from None


def _delivery(
    queue: QueueName, fields: Mapping[str, Any], body: bytes, answer: ServerAnswer,
    asked_seconds: float | None,
) -> Delivery:  # fmt: skip
    try:
        count = fields.get("receive_count")
        visible_at = datetime.fromisoformat(fields["visible_at"])
        return Delivery(
            queue,
            MessageId(str(fields["id"])),
            body,
            fields.get("content_type") or DEFAULT_CONTENT_TYPE,
            str(fields["lease"]),
            None if count is None else int(count),
            datetime.fromisoformat(fields["published_at"]),
            visible_at,
            asked_seconds,
            lease_seconds(answer, visible_at) if asked_seconds is None else asked_seconds,
            answer.came_at,
            _properties(fields),
            fields.get("dead_from"),
            fields.get("dead_reason"),
            int(fields.get("properties_left_out", 0)),
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        raise unexpected("is not a message") from None


def _properties(fields: Mapping[str, Any]) -> Properties:
    """Return the properties in a line. Raises ValueError, AttributeError."""
    return {str(name): str(value) for name, value in fields.get("properties", {}).items()}


def lease_seconds(answer: ServerAnswer, visible_at: datetime) -> float:
    """Return a lower bound on a lease whose length the server chose. `Date` is cut off to seconds,
    so it may be up to a second less than the difference of the two times."""
    date = read_http_date(answer.headers.get("date", ""))
    if date is None:
        return _SHORTEST_LEASE_SECONDS
    return max((visible_at - date).total_seconds() - 1.0, _SHORTEST_LEASE_SECONDS)


def document_in(text: bytes) -> dict[str, Any]:
    """Return the JSON object in an answer. Raises UnexpectedAnswer."""
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise unexpected("has a line that is not a JSON object")
    return document


def _body(fields: Mapping[str, Any]) -> bytes:
    try:
        return ndjson.body_of(fields)
    except InvalidRequest:
        raise unexpected("has a message without a body") from None


def unexpected(what: str) -> UnexpectedAnswer:
    return UnexpectedAnswer(f"the answer {what}: it is not from a server of MQ")
