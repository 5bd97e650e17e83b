"""Messages and counters in a server's answers, as `mqctl` shows them."""

from __future__ import annotations

import re
from io import BytesIO

from mq.client.answers import document_in, peeked_in, read_lease, unexpected
from mq.client.blocking.exchange import Exchange
from mq.client.errors import ClientError
from mq.client.wire import ServerAnswer
from mq.config import DEFAULT_CONTENT_TYPE
from mq.ctl.ways.access import Passed, Readable, ShownMessage
from mq.errors import CommandFailed, ExitCode, InvalidName
from mq.names import parse_message_id, parse_queue_name
from mq.properties import is_property

_COUNTER = re.compile(
    r'mq_queue_messages_(published|removed|expired|dead_lettered)_total\{queue="([^"\\]+)"\} (\S+)'
)


def message_of(exchange: Exchange) -> ShownMessage:
    """Return the message that the head of an answer describes; its body is still to be read. Raises
    UnexpectedAnswer, and CommandFailed if a part of the message would be missing."""
    head = exchange.head()
    headers = head.headers
    count = headers.get("x-receive-count")
    queue = headers.get("x-queue")
    try:
        message_id = parse_message_id(header_of(head, "X-Message-Id"))
        received = None if count is None else int(count)
        among = None if queue is None else parse_queue_name(queue)
    except (InvalidName, ValueError):
        raise unexpected("is not a message") from None
    left_out = headers.get("x-properties-left-out")
    if left_out is not None:
        raise CommandFailed(
            ExitCode.REFUSED,
            f"message {message_id} has {left_out} properties that are too long for HTTP's headers; "
            "use --root. If it was received, it returns when its lease ends",
        )
    length, body = _body_of(exchange, message_id)
    return ShownMessage(
        message_id=message_id,
        state=headers.get("x-state", "leased"),
        lease=read_lease(head) if "etag" in headers else None,
        receive_count=received,
        content_type=headers.get("content-type", DEFAULT_CONTENT_TYPE),
        published_at=header_of(head, "X-Published-At"),
        visible_at=headers.get("x-visible-at"),
        length=length,
        body=body,
        is_damaged=headers.get("x-damaged") == "yes",
        properties={name: value for name, value in headers.items() if is_property(name)},
        dead_from=headers.get("x-dead-from"),
        dead_reason=headers.get("x-dead-reason"),
        queue=among,
    )


def _body_of(exchange: Exchange, message_id: str) -> tuple[int, Readable]:
    """Return the length of a body, and the body. A proxy may send it in pieces, without a length:
    then it is read here."""
    length = exchange.head().headers.get("content-length")
    if length is not None:
        return int(length), AnswerBody(exchange, message_id, int(length))
    body = exchange.whole().body
    return len(body), BytesIO(body)


def message_in(line: bytes) -> ShownMessage:
    """Return the message in a line of an answer in ndjson. Raises UnexpectedAnswer."""
    fields = document_in(line)
    found = peeked_in(fields)
    return ShownMessage(
        message_id=found.id,
        state=found.state,
        lease=None,
        receive_count=found.receive_count,
        content_type=found.content_type,
        published_at=fields["published_at"],
        visible_at=fields.get("visible_at"),
        length=len(found.body),
        body=BytesIO(found.body),
        is_damaged=found.is_damaged,
        properties=found.properties,
        dead_from=found.dead_from,
        dead_reason=found.dead_reason,
    )


def header_of(answer: ServerAnswer, name: str) -> str:
    """Return a header of an answer. Raises UnexpectedAnswer."""
    value = answer.headers.get(name.lower())
    if value is None:
        raise unexpected(f"has no {name}")
    return value


class AnswerBody:
    """The body of a message in an answer, read in pieces."""

    def __init__(self, exchange: Exchange, message_id: str, length: int) -> None:
        self._exchange = exchange
        self._message_id = message_id
        self._length = length
        self._read = 0

    def read(self, size: int = -1, /) -> bytes:
        """Read a piece. Raises CommandFailed if the body ends early: half of it must not pass for
        all."""
        chunk, error = b"", None
        left = self._length - self._read
        wanted = left if size < 0 else min(size, left)
        try:
            chunk = self._exchange.read(wanted) if wanted else b""
        except ClientError as broken:
            error = broken
        self._read += len(chunk)
        if len(chunk) < wanted:
            raise CommandFailed(
                ExitCode.UNAVAILABLE,
                f"the body of message {self._message_id} ended after {self._read} of "
                f"{self._length} bytes; if it was received, it returns when its lease ends",
            ) from error
        return chunk

    def close(self) -> None:
        self._exchange.close()


def passed_in(metrics: str) -> dict[str, Passed]:
    """Read the counters by queue in the text that Prometheus reads. Raises UnexpectedAnswer."""
    found: dict[str, Passed] = {}
    for kind, queue, value in _COUNTER.findall(metrics):
        before = found.get(queue, Passed(0, 0))
        try:
            number = int(float(value))
        except (ValueError, OverflowError):
            raise unexpected("has a counter that is not a number") from None
        if kind == "published":
            found[queue] = before._replace(published=before.published + number)
        else:
            found[queue] = before._replace(gone=before.gone + number)
    return found
