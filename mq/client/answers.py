"""What the answers of a server say, as data. What does not come from a server of MQ raises
UnexpectedAnswer."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Any

from mq.client.errors import ClientError, UnexpectedAnswer
from mq.client.messages import Counts, Delivery, Peeked
from mq.client.own_ids import read_http_date
from mq.client.problems import error_of
from mq.client.wire import LONGEST_SECONDS, SUCCESS, ServerAnswer, json_in
from mq.config import DEFAULT_CONTENT_TYPE
from mq.errors import InvalidName, InvalidRequest
from mq.lines import ndjson
from mq.names import QueueName, parse_message_id
from mq.properties import Properties, is_property

_SHORTEST_LEASE_SECONDS = 0.1
_LEASE = re.compile(r"[0-9a-f]{16}")
_ETAG = re.compile(r'"[0-9a-f]{16}"')
_MALFORMED = (ValueError, LookupError, TypeError, AttributeError, OverflowError, InvalidName)
"""What reading a value that no server of MQ writes may raise."""


def read_delivery(
    queues: Sequence[QueueName], answer: ServerAnswer, asked_seconds: float | None
) -> Delivery:
    """Return the message in an answer to a request for these queues. Raises UnexpectedAnswer."""
    fields = _fields_in(answer.headers) | {
        "lease": read_lease(answer),
        "properties_left_out": answer.headers.get("x-properties-left-out", 0),
    }
    return _delivery(_queue_of(queues, fields), fields, answer.body, answer, asked_seconds)


def _fields_in(headers: Mapping[str, str]) -> dict[str, Any]:
    """Return what the headers say of a message, by the names that it has in a line."""
    return {
        "id": headers.get("x-message-id"),
        "queue": headers.get("x-queue"),
        "content_type": headers.get("content-type"),
        "receive_count": headers.get("x-receive-count"),
        "published_at": headers.get("x-published-at"),
        "visible_at": headers.get("x-visible-at"),
        "properties": {name: value for name, value in headers.items() if is_property(name)},
        "dead_from": headers.get("x-dead-from"),
        "dead_reason": headers.get("x-dead-reason"),
    }


def read_deliveries(
    queues: Sequence[QueueName], answer: ServerAnswer, asked_seconds: float | None
) -> list[Delivery]:
    """Return the messages in an answer with a line for each, to a request for these queues. Raises
    UnexpectedAnswer."""
    found = []
    for line in _lines_in(answer):
        fields = document_in(line)
        queue = _queue_of(queues, fields)
        found.append(_delivery(queue, fields, _body(fields), answer, asked_seconds))
    return found


def _queue_of(queues: Sequence[QueueName], fields: Mapping[str, Any]) -> QueueName:
    """Return which of the queues a message is in. Raises UnexpectedAnswer."""
    if len(queues) == 1:
        return queues[0]
    for queue in queues:
        if queue == fields.get("queue"):
            return queue
    raise unexpected("has a message of none of the queues that were asked for")


def read_peeked(answer: ServerAnswer) -> list[Peeked]:
    """Return the messages in an answer with a line for each. Raises UnexpectedAnswer."""
    return [peeked_in(document_in(line)) for line in _lines_in(answer)]


def read_peeked_at(answer: ServerAnswer) -> Peeked:
    """Return the message that is the body of an answer. Raises UnexpectedAnswer."""
    headers = answer.headers
    if "x-state" not in headers:
        raise unexpected("has no X-State")
    more = {"state": headers["x-state"], "damaged": headers.get("x-damaged") == "yes"}
    return _peeked(_fields_in(headers) | more, answer.body)


def peeked_in(fields: Mapping[str, Any]) -> Peeked:
    """Return the message in a line. Raises UnexpectedAnswer."""
    return _peeked(fields, _body(fields))


def _peeked(fields: Mapping[str, Any], body: bytes) -> Peeked:
    due = fields.get("visible_at")
    try:
        return Peeked(
            parse_message_id(fields["id"]),
            body,
            _text(fields, "content_type") or DEFAULT_CONTENT_TYPE,
            _count(fields),
            _time(fields["published_at"]),
            fields.get("damaged") is True,
            _properties(fields),
            _text(fields, "dead_from"),
            _text(fields, "dead_reason"),
            str(fields["state"]),
            None if due is None else _time(due),
        )
    except _MALFORMED:
        raise unexpected("is not a message") from None


def read_failures(answer: ServerAnswer, ids: Collection[str]) -> dict[str, ClientError]:
    """Return which of these messages were not removed or moved, each with its error. One that is
    gone when the request is repeated counts as done by the try before. Raises UnexpectedAnswer."""
    failed, told = {}, set[str]()
    for line in answer.body.splitlines():
        fields = document_in(line)
        status = fields.get("status")
        if "id" not in fields or not isinstance(status, int):
            raise unexpected("has a line that is not the outcome of a removal")
        told.add(str(fields["id"]))
        if status not in SUCCESS and not (status == 404 and answer.is_repeated):
            failed[str(fields["id"])] = error_of(answer._replace(status=status, body=line))
    if told != {*ids}:
        raise unexpected("does not say of each message what became of it")
    return failed


def _lines_in(answer: ServerAnswer) -> list[bytes]:
    """Return the lines of an answer that has one for each message. A server has an answer of its
    own for none."""
    lines = answer.body.splitlines()
    if not lines:
        raise unexpected("has no message")
    return lines


def read_lease(answer: ServerAnswer) -> str:
    """Return the lease in an answer. Raises UnexpectedAnswer for one that is not of this server: a
    proxy that compresses an answer changes its ETag, and then the lease matches nothing."""
    tag = answer.headers.get("etag", "")
    if not _ETAG.fullmatch(tag):
        found = f"the ETag {tag}" if tag else "no ETag"
        raise UnexpectedAnswer(
            f"the answer has {found}, where a lease should be; let the proxy in between compress "
            "and change nothing",
            way_out=None,
        )
    return tag.strip('"')


def read_visible_at(answer: ServerAnswer) -> datetime:
    """Return when the message becomes visible. Raises UnexpectedAnswer."""
    try:
        return _time(answer.headers["x-visible-at"])
    except _MALFORMED:
        raise unexpected("has no X-Visible-At") from None


def read_counts(answer: ServerAnswer) -> Counts:
    """Return the counts in an answer. Raises UnexpectedAnswer."""
    return counts_in(document_in(answer.body))


def counts_in(document: Mapping[str, Any]) -> Counts:
    """Return the counts in a document. Raises UnexpectedAnswer."""
    try:
        counts = Counts(*(document[name] for name in Counts._fields))
        age = counts.oldest_age_seconds
        are_right = (
            isinstance(counts.queue, str)
            and all(isinstance(number, int) for number in counts[1:4])
            and (age is None or isfinite(age))
        )
    except _MALFORMED:
        are_right = False
    if not are_right:
        raise unexpected("describes no queue")
    return counts


def _delivery(
    queue: QueueName, fields: Mapping[str, Any], body: bytes, answer: ServerAnswer,
    asked_seconds: float | None,
) -> Delivery:  # fmt: skip
    try:
        visible_at = _time(fields["visible_at"])
        return Delivery(
            queue,
            parse_message_id(fields["id"]),
            body,
            _text(fields, "content_type") or DEFAULT_CONTENT_TYPE,
            _lease(fields),
            _count(fields),
            _time(fields["published_at"]),
            visible_at,
            asked_seconds,
            lease_seconds(answer, visible_at) if asked_seconds is None else asked_seconds,
            answer.came_at,
            _properties(fields),
            _text(fields, "dead_from"),
            _text(fields, "dead_reason"),
            int(fields.get("properties_left_out", 0)),
        )
    except _MALFORMED:
        raise unexpected("is not a message") from None


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    """Return a member that is text, or None if it is missing. Raises TypeError."""
    value = fields.get(name)
    if not isinstance(value, str | None):
        raise TypeError(name)
    return value


def _count(fields: Mapping[str, Any]) -> int | None:
    """Return how often a message was received. Raises ValueError, TypeError, OverflowError."""
    value = fields.get("receive_count")
    return None if value is None else int(value)


def _lease(fields: Mapping[str, Any]) -> str:
    """Return the lease, which is sent back as a header. Raises ValueError, TypeError."""
    lease: str = fields["lease"]
    if not _LEASE.fullmatch(lease):
        raise ValueError("lease")
    return lease


def _time(text: str) -> datetime:
    """Return a time with its zone: without one it could not be compared. Raises ValueError,
    TypeError."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("zone")
    return time


def _properties(fields: Mapping[str, Any]) -> Properties:
    """Return the properties in a line. Raises ValueError, AttributeError."""
    return {str(name): str(value) for name, value in fields.get("properties", {}).items()}


def lease_seconds(answer: ServerAnswer, visible_at: datetime) -> float:
    """Return a lower bound on a lease whose length the server chose. `Date` is cut off to seconds,
    so it may be up to a second less than the difference of the two times."""
    date = read_http_date(answer.headers.get("date", ""))
    if date is None:
        return _SHORTEST_LEASE_SECONDS
    seconds = (visible_at - date).total_seconds() - 1.0
    return min(max(seconds, _SHORTEST_LEASE_SECONDS), LONGEST_SECONDS)


def document_in(text: bytes) -> dict[str, Any]:
    """Return the JSON object in an answer. Raises UnexpectedAnswer."""
    try:
        document = json_in(text)
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
