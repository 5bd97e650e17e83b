"""What a client does, as generators that both clients run. All of them raise ClientError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    Peeked,
    PeekedState,
    PurgedState,
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
from mq.client.wire import ClientPause, Operation, Request, ServerAnswer, query, with_others
from mq.config import MAX_WAIT_SECONDS
from mq.names import QueueName

_LONGEST_PURGE_SECONDS = 300.0
"""The server may take this long for millions of messages."""

_LOOK_SECONDS = 1.0
_LOOKS_PER_SECOND = 50
"""The pause of a worker that runs until its queue is empty: before a thread or task that found
nothing looks again while others are at work; and how many such looks there are in all."""

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
    return with_others(target, "then", queues)


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
