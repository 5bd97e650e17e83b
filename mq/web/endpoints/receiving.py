"""Receive over HTTP. A client that went away before its answer never got the message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache

from aiohttp import web

from mq.config import (
    DEFAULT_CONTENT_TYPE,
    MAX_ANSWER_MESSAGES,
    MAX_VISIBILITY_SECONDS,
    MAX_WAIT_SECONDS,
    SMALL_BODY_BYTES,
)
from mq.errors import InvalidRequest
from mq.lines.ndjson import write_members
from mq.names import MessageId, parse_message_id
from mq.store.answer_memory import Share
from mq.store.bodies import are_few_in_memory, total_length
from mq.store.by_id import Guard
from mq.store.receiving.long_receive import LongPoll
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from mq.times import rfc3339
from mq.web.answers import Answer, Response, lines_of
from mq.web.burials import burial_fields, burial_headers
from mq.web.connections.presence import send_if_half_closed, unless_client_leaves
from mq.web.connections.quick_connection import QuickConnection
from mq.web.connections.unread import takes_at_once
from mq.web.downloads import answer_body, answer_few_lines, answer_lines, answer_small_body
from mq.web.endpoints.peeking import peek
from mq.web.parameters import (
    Head,
    Target,
    read_count,
    read_flag,
    read_guard,
    read_queues,
    read_seconds,
    refuse_guard,
    refuse_together,
)
from mq.web.properties import property_headers

THEN = "then"
PARAMETERS = frozenset({"wait", "visibility", "id", "max", THEN, "peek", "after", "state"})
QUEUES = frozenset({THEN})
"""Parameters that may be given more than once."""


async def receive(store: Store, request: web.BaseRequest, target: Target) -> Response:
    parameters = target.parameters
    if "id" not in parameters:
        refuse_guard(request)
    connection = request.protocol
    assert isinstance(connection, QuickConnection)
    taken = connection.take_over(list)
    if taken is not None:
        limit, _, _ = read_receiving(parameters)
        with store.answer_memory.share() as share:
            share.hold_bodies(total_length(taken))
            names_queue = THEN in parameters
            return await _answer_taken(store, request, taken, limit, share, names_queue=names_queue)
    if not parameters:
        return await _answer(store, request, await store.receive(target.queue, None))
    if read_flag(parameters, "peek"):
        return await peek(store, request, target)
    for name in ("after", "state"):
        if name in parameters:
            raise InvalidRequest(f"parameter {name!r} goes with 'peek'")
    if "id" in parameters:
        return await _receive_by_id(store, request, target)
    limit, wait, visibility = read_receiving(parameters)
    then = read_queues(parameters, THEN, target.queue)
    with store.answer_memory.share() as share:
        poll = LongPoll(wait)
        receiving = store.receive_many(
            target.queue, limit or 1, visibility, poll, share, then=then or ()
        )
        waited = unless_client_leaves(request, receiving, poll.end) if wait else receiving
        found = await waited or []
        names_queue = then is not None
        return await _answer_taken(store, request, found, limit, share, names_queue=names_queue)


def read_receiving(parameters: dict[str, str]) -> tuple[int | None, float, float | None]:
    """Return up to how many messages a receive asks for, None for one that is not a line; for how
    many seconds it waits; and for how many they are hidden, None if the queue says. Raises
    InvalidRequest."""
    return (
        read_count(parameters, "max", MAX_ANSWER_MESSAGES),
        read_seconds(parameters, "wait", MAX_WAIT_SECONDS) or 0.0,
        read_seconds(parameters, "visibility", MAX_VISIBILITY_SECONDS, is_zero_allowed=False),
    )


def read_by_id(
    request: Head, parameters: dict[str, str]
) -> tuple[MessageId, float | None, Guard | None]:
    """Return which message a receive asks for; for how many seconds it is hidden, None if the queue
    says, 0 to release it; and on which condition. Raises InvalidName, InvalidRequest."""
    refuse_together(parameters, "id", "wait", "max", THEN)
    return (
        parse_message_id(parameters["id"]),
        read_seconds(parameters, "visibility", MAX_VISIBILITY_SECONDS),
        read_guard(request),
    )


async def _receive_by_id(store: Store, request: web.BaseRequest, target: Target) -> Response:
    message_id, visibility, guard = read_by_id(request, target.parameters)
    if visibility == 0:
        await store.release_by_id(target.queue, message_id, guard)
        return Answer(204)
    return await _answer(
        store, request, await store.take(target.queue, message_id, visibility, guard)
    )


async def _answer_taken(
    store: Store,
    request: web.BaseRequest,
    found: Sequence[Received],
    limit: int | None,
    share: Share,
    *,
    names_queue: bool = False,
) -> Response:
    if limit is None:
        one = found[0] if found else None
        return await _answer(store, request, one, names_queue=names_queue)
    return await _answer_many(store, request, found, share, names_queue=names_queue)


async def _answer(
    store: Store,
    request: web.BaseRequest,
    received: Received | None,
    *,
    names_queue: bool = False,
) -> Response:
    if received is None:
        return Answer(204)
    try:
        head = head_of(received, names_queue=names_queue)
        return await send_if_half_closed(request, answer_body(store, request, received, head))
    except (OSError, asyncio.CancelledError):
        await store.put_back(received)
        raise


async def _answer_many(
    store: Store,
    request: web.BaseRequest,
    found: Sequence[Received],
    share: Share,
    *,
    names_queue: bool,
) -> Response:
    if not found:
        return Answer(204)
    try:
        members = _members_of_all(found, names_queue=names_queue)
        answering = answer_lines(store, request, found, members, share)
        return await send_if_half_closed(request, answering)
    except BaseException:
        for received in found:
            await store.put_back(received)
        raise


def answer_at_once(
    received: Sequence[Received],
    limit: int | None,
    transport: asyncio.Transport,
    *,
    names_queue: bool,
) -> Answer | None:
    """Answer with messages for which the client need not be there until it has taken most of them;
    return None for others. Raises ValueError for a header that cannot be sent."""
    bodies = [each.body for each in received if each.body is not None]
    if len(bodies) < len(received) or (limit is not None and not are_few_in_memory(received)):
        return None
    if limit is None:
        answer = answer_small_body(bodies[0], head_of(received[0], names_queue=names_queue))
    else:
        members = _members_of_all(received, names_queue=names_queue)
        answer = answer_few_lines(members, bodies)
    length = answer.length
    return answer if length <= SMALL_BODY_BYTES or takes_at_once(transport, length) else None


def head_of(received: Received, *, names_queue: bool = False) -> str:
    """Return what a receiver is told of its message besides the body, as lines of a head. A content
    type is printable, and an id has letters and digits."""
    lines = (
        f"X-Message-Id: {received.message_id}\r\n"
        f"Content-Type: {received.content_type or DEFAULT_CONTENT_TYPE}\r\n"
        f'ETag: "{received.lease:016x}"\r\n'
        f"X-Published-At: {rfc3339(received.published_ns)}\r\n"
        f"X-Visible-At: {rfc3339(received.visible_ns)}\r\n"
    )
    if received.receive_count is not None:
        lines += f"X-Receive-Count: {received.receive_count}\r\n"
    if received.properties:
        lines += lines_of(property_headers(received.properties))
    if received.burial is not None:
        lines += lines_of(burial_headers(received.burial))
    if names_queue:
        lines += f"X-Queue: {received.queue}\r\n"
    return lines


_visible_at = lru_cache(maxsize=64)(rfc3339)
"""The messages of an answer are mostly visible again at the same time."""


def _members_of_all(received: Sequence[Received], *, names_queue: bool) -> list[str]:
    """Return the members of the lines for several messages of one queue."""
    members = [*map(members_of, received)]
    if not names_queue:
        return members
    queue = f'"queue": "{received[0].queue}", '
    return [queue + each for each in members]


def members_of(received: Received) -> str:
    """Return what the headers say as members of a line. In those that every message has there is
    nothing that JSON escapes."""
    kind, properties, burial = received.content_type, received.properties, received.burial
    about = ""
    if kind is not None or properties:
        about = write_members({"content_type": kind, "properties": dict(properties) or None})
    count = "" if received.receive_count is None else f'"receive_count": {received.receive_count}, '
    return (
        f'"id": "{received.message_id}", {about}"lease": "{received.lease:016x}", {count}'
        f'"published_at": "{rfc3339(received.published_ns)}", '
        f'"visible_at": "{_visible_at(received.visible_ns)}", '
        f"{'' if burial is None else write_members(burial_fields(burial))}"
    )
