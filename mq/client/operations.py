"""What a client does, as generators that both clients run. All of them raise ClientError."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from mq.client import arguments
from mq.client.answers import (
    document_in,
    read_counts,
    read_deliveries,
    read_delivery,
    read_peeked,
    read_peeked_at,
    unexpected,
)
from mq.client.by_id import GONE
from mq.client.errors import ClientError
from mq.client.messages import (
    Counts,
    Delivery,
    Lines,
    NewMessage,
    Peeked,
    PeekedState,
    PurgedState,
    bytes_of,
    content_type_of,
    properties_of,
    write_line,
)
from mq.client.retries import (
    WORKER_PAUSE_SECONDS,
    Context,
    ask,
    asked_pause_seconds,
    is_temporary,
    log,
)
from mq.client.settings import SettingValue, setting_text, settings_in
from mq.client.wire import ClientPause, Operation, Request, ServerAnswer, query
from mq.config import MAX_BATCH_BYTES, MAX_BATCH_LINES, MAX_WAIT_SECONDS
from mq.lines.ndjson import MEDIA_TYPE
from mq.names import MessageId, QueueName

_LONGEST_PURGE_SECONDS = 300.0
"""The server may take this long for millions of messages."""

_LOOK_SECONDS = 1.0
_LOOKS_PER_SECOND = 50
"""The pause of a worker that works off its queue: before a thread or task that found nothing looks
again while others are at work; and how many such looks there are in all."""

_MADE = frozenset({200, 201})
_DELETED = frozenset({200})


def create_queue(
    context: Context, queue: QueueName, settings: Mapping[str, SettingValue] | None = None
) -> Operation[bool]:
    """Make a queue. Returns whether it is new; False too if an earlier try, whose answer was lost,
    made it."""
    arguments.by_name("settings", settings or {}, '{"visibility": 60}')
    changes = {name: setting_text(name, value) for name, value in (settings or {}).items()}
    parameters = f"?{urlencode(changes)}" if changes else ""
    answer = yield from ask(context, Request("PUT", f"/{queue}{parameters}", done=_MADE))
    _require_no_page(answer)
    return answer.status == 201


def read_settings(context: Context, queue: QueueName) -> Operation[dict[str, Any]]:
    return settings_in((yield from ask(context, Request("GET", f"/{queue}"))))


def delete_queue(context: Context, queue: QueueName) -> Operation[None]:
    answer = yield from ask(context, Request("DELETE", f"/{queue}", done=_DELETED), GONE)
    if answer.status in _DELETED:
        _require_no_page(answer)


def _require_no_page(answer: ServerAnswer) -> None:
    """Raise UnexpectedAnswer if a success says more than that, as the page of a proxy does."""
    if answer.body:
        raise unexpected("has a body, where a server has none")


def purge(context: Context, queue: QueueName, state: PurgedState) -> Operation[int]:
    """Purge a queue. Returns how many messages were removed. An earlier try, whose answer was lost,
    may have removed more."""
    if state not in ("all", "ready"):
        raise ValueError(f"state={state!r}: give all or ready")
    target = f"/{queue}?purge" if state == "all" else f"/{queue}?purge=ready"
    request = Request("DELETE", target, wait_seconds=_LONGEST_PURGE_SECONDS)
    purged = document_in((yield from ask(context, request)).body).get("purged")
    if not isinstance(purged, int):
        raise unexpected("does not say how many messages were removed")
    return purged


def count(context: Context, queue: QueueName) -> Operation[Counts]:
    return read_counts((yield from ask(context, Request("GET", f"/{queue}"))))


def publish(
    context: Context, queues: Sequence[QueueName], message: NewMessage
) -> Operation[MessageId]:
    """Publish a message to all of the queues, under an id of the client's own, so that it is safe
    to send it again."""
    message_id = _id_of(context, message)
    given = {"X-Message-Id": message_id, "Content-Type": content_type_of(message)}
    request = Request(
        "POST",
        publish_target(queues, query(delay=message.delay)),
        bytes_of(message.body),
        {name: value for name, value in given.items() if value is not None}
        | properties_of(message),
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
        if isinstance(part, NewMessage):
            own = None if part.queue is None else arguments.queue_name("queue", part.queue)
            to = [*dict.fromkeys([own or queues[0], *queues[1:]])]
            published.append((yield from publish(context, to, part)))
            continue
        request = Request(
            "POST",
            publish_target(queues, "?batch"),
            part.data,
            {"Content-Type": MEDIA_TYPE},
        )
        answer = yield from ask(context, request)
        if [document_in(line).get("id") for line in answer.body.splitlines()] != part.ids:
            raise unexpected("has other ids")
        published += part.ids
    return published


def publish_target(queues: Sequence[QueueName], more: str = "") -> str:
    """Return the target of a publish to all of the queues; `more` is the beginning of its query."""
    return _with_others(f"/{queues[0]}/messages{more}", "also", queues)


def receive(
    context: Context, queues: Sequence[QueueName], wait: float, visibility: float | None
) -> Operation[Delivery | None]:
    """Receive from the first of the queues that has a message."""
    arguments.seconds("wait", wait)
    target = receive_target(queues, None, wait, visibility)
    request = Request("GET", target, wait_seconds=min(wait, MAX_WAIT_SECONDS))
    answer = yield from ask(context, request)
    return None if answer.status == 204 else read_delivery(queues, answer, visibility)


def poll(
    context: Context, queues: Sequence[QueueName], wait: float, visibility: float | None
) -> Operation[Delivery | None]:
    """Receive for a worker. If the server cannot be reached, or says that it cannot now, this
    returns None after a pause, so that the worker may ask again at once."""
    try:
        return (yield from receive(context, queues, wait, visibility))
    except ClientError as error:
        if not is_temporary(error):
            raise
        # With a retry time of 0 the error comes at once. It is logged only after the pause, which a
        # worker that is stopped does not wait for.
        yield ClientPause(WORKER_PAUSE_SECONDS)
        log.warning("no messages from queue %s, trying on: %s", ", ".join(queues), error)
        yield ClientPause(asked_pause_seconds(error))
        return None


def look_again(
    context: Context, queues: Sequence[QueueName], visibility: float | None, concurrency: int
) -> Operation[Delivery | None]:
    """Receive for a worker that found nothing, after a pause: what is being handled may publish
    more."""
    yield ClientPause(max(_LOOK_SECONDS, concurrency / _LOOKS_PER_SECOND))
    return (yield from receive(context, queues, 0.0, visibility))


def receive_many(
    context: Context,
    queues: Sequence[QueueName],
    most: int,
    wait: float,
    visibility: float | None,
) -> Operation[list[Delivery]]:
    """Receive several messages from the first of the queues that has any."""
    arguments.seconds("wait", wait)
    target = receive_target(queues, most, wait, visibility)
    request = Request("GET", target, wait_seconds=min(wait, MAX_WAIT_SECONDS))
    answer = yield from ask(context, request)
    return [] if answer.status == 204 else read_deliveries(queues, answer, visibility)


def receive_target(
    queues: Sequence[QueueName], most: int | None, wait: float, visibility: float | None
) -> str:
    """Return the target of a receive from the first of the queues that has a message."""
    target = f"/{queues[0]}/messages{query(max=most, wait=wait or None, visibility=visibility)}"
    return _with_others(target, "then", queues)


def _with_others(target: str, name: str, queues: Sequence[QueueName]) -> str:
    """Return a target with a parameter that names all queues but the first."""
    if len(queues) == 1:
        return target
    return f"{target}{'&' if '?' in target else '?'}{name}={','.join(queues[1:])}"


def peek(
    context: Context, queue: QueueName, most: int, after: str | None, state: PeekedState = "ready"
) -> Operation[list[Peeked]]:
    behind = "" if after is None else f"&after={arguments.message_id('after', after)}"
    of_state = "" if state == "ready" else f"&{urlencode({'state': state})}"
    request = Request("GET", f"/{queue}/messages?peek&max={most}{behind}{of_state}")
    answer = yield from ask(context, request)
    return [] if answer.status == 204 else read_peeked(answer)


def peek_at(context: Context, queue: QueueName, message_id: str) -> Operation[Peeked]:
    name = arguments.message_id("message_id", message_id)
    request = Request("GET", f"/{queue}/messages?peek&id={name}")
    return read_peeked_at((yield from ask(context, request)))


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
