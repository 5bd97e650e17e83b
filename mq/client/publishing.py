"""Publishing, and handing messages over, as generators that both clients run. All of them raise
ClientError."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from mq.client import arguments
from mq.client.answers import document_in, unexpected
from mq.client.by_id import if_match
from mq.client.errors import LeaseLost, MessageNotFound
from mq.client.messages import (
    Delivery,
    Lines,
    NewMessage,
    bytes_of,
    content_type_of,
    properties_of,
    write_line,
)
from mq.client.retries import Context, ask
from mq.client.wire import Operation, Request, query, with_others
from mq.config import MAX_BATCH_BYTES, MAX_BATCH_LINES
from mq.lines.ndjson import MEDIA_TYPE
from mq.names import MessageId, QueueName


def publish(
    context: Context,
    queues: Sequence[QueueName],
    message: NewMessage,
    removes: Delivery | None = None,
) -> Operation[MessageId]:
    """Publish a message to all of the queues, under an id of the client's own, so that it is safe
    to send it again; with `removes`, remove that one in the same step."""
    message_id = _id_of(context, message)
    given = {"X-Message-Id": message_id, "Content-Type": content_type_of(message)}
    request = Request(
        "POST",
        _removing(publish_target(queues, query(delay=message.delay)), removes),
        bytes_of(message.body),
        {name: value for name, value in given.items() if value is not None}
        | properties_of(message)
        | if_match(None if removes is None else removes.lease),
    )
    answer = yield from ask(context, request)
    if answer.headers.get("x-message-id") != message_id:
        raise unexpected("has another X-Message-Id")
    return message_id


def publish_many(
    context: Context, queues: Sequence[QueueName], messages: Iterable[NewMessage]
) -> Operation[list[MessageId]]:
    """Publish messages in batches, each whole or not at all. A message that is too large for a
    batch goes by itself."""
    published: list[MessageId] = []
    for part in _batches(context, messages, MAX_BATCH_LINES // len(queues)):
        published += yield from _publish_part(context, queues, part)
    return published


def hand_over(
    context: Context,
    queues: Sequence[QueueName],
    messages: Sequence[NewMessage],
    removes: Delivery,
) -> Operation[list[MessageId]]:
    """Publish messages to all of the queues, and remove one under its lease, in one step. Raises
    LeaseLost if that lease is not the current one, or the message is gone; ValueError for more
    messages than one batch has."""
    if len(messages) == 1:
        parts: list[Lines | NewMessage] = [*messages]
    else:
        parts = [*_batches(context, messages, MAX_BATCH_LINES // len(queues))]
    if len(parts) != 1:
        raise ValueError(
            f"{len(messages)} messages: hand over to at least one, and to no more than one batch "
            f"has, {MAX_BATCH_LINES} with all copies and {MAX_BATCH_BYTES} bytes"
        )
    try:
        return (yield from _publish_part(context, queues, parts[0], removes))
    except MessageNotFound as error:
        raise LeaseLost(str(error), error.problem) from None


def _publish_part(
    context: Context,
    queues: Sequence[QueueName],
    part: Lines | NewMessage,
    removes: Delivery | None = None,
) -> Operation[list[MessageId]]:
    if isinstance(part, NewMessage):
        own = None if part.queue is None else arguments.queue_name("queue", part.queue)
        to = [*dict.fromkeys([own or queues[0], *queues[1:]])]
        return [(yield from publish(context, to, part, removes))]
    request = Request(
        "POST",
        _removing(publish_target(queues, "?batch"), removes),
        part.data,
        {"Content-Type": MEDIA_TYPE} | if_match(None if removes is None else removes.lease),
    )
    answer = yield from ask(context, request)
    if [document_in(line).get("id") for line in answer.body.splitlines()] != part.ids:
        raise unexpected("has other ids")
    return part.ids


def _removing(target: str, removes: Delivery | None) -> str:
    if removes is None:
        return target
    return f"{target}{'&' if '?' in target else '?'}removes={removes.queue}/{removes.id}"


def publish_target(queues: Sequence[QueueName], more: str = "") -> str:
    """Return the target of a publish to all of the queues; `more` is the beginning of its query."""
    return with_others(f"/{queues[0]}/messages{more}", "also", queues)


def _id_of(context: Context, message: NewMessage) -> MessageId:
    if message.message_id is None:
        return context.ids.next()
    return arguments.message_id("message_id", message.message_id)


def _batches(
    context: Context, messages: Iterable[NewMessage], most: int
) -> Iterator[Lines | NewMessage]:
    """Yield batches of up to `most` messages, in the order in which they come."""
    lines: list[bytes] = []
    ids: list[MessageId] = []
    size = 0
    for message in messages:
        message_id = _id_of(context, message)
        line = write_line(message, message_id)
        if lines and (size + len(line) > MAX_BATCH_BYTES or len(lines) == most):
            yield Lines(b"".join(lines), ids)
            lines, ids, size = [], [], 0
        if len(line) > MAX_BATCH_BYTES:
            yield replace(message, message_id=message_id)
            continue
        lines.append(line)
        ids.append(message_id)
        size += len(line)
    if lines:
        yield Lines(b"".join(lines), ids)
