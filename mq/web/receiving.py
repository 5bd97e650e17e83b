"""Receive over HTTP. A client that went away before its answer never got the message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import web

from mq.config import (
    DEFAULT_CONTENT_TYPE,
    MAX_FETCH_MESSAGES,
    MAX_VISIBILITY_SECONDS,
    MAX_WAIT_SECONDS,
)
from mq.errors import InvalidRequest
from mq.names import parse_message_id
from mq.store.lease import Received
from mq.store.store import Store
from mq.web.answers import Answer, Response
from mq.web.downloads import answer_body, answer_lines
from mq.web.parameters import (
    Target,
    read_count,
    read_flag,
    read_guard,
    read_seconds,
    refuse_together,
)
from mq.web.peeking import peek
from mq.web.presence import is_client_gone, unless_client_leaves
from mq.web.times import rfc3339

PARAMETERS = frozenset({"wait", "visibility", "id", "max", "peek", "after"})


async def receive(store: Store, request: web.BaseRequest, target: Target) -> Response:
    parameters = target.parameters
    if not parameters:
        received = await store.receive(target.queue, store.visibility_seconds)
        return await _answer(store, request, received)
    if read_flag(parameters, "peek"):
        return await peek(store, request, target)
    if "after" in parameters:
        raise InvalidRequest("parameter 'after' goes with 'peek'")
    if "id" in parameters:
        return await _receive_by_id(store, request, target)
    limit = read_count(parameters, "max", MAX_FETCH_MESSAGES)
    wait = read_seconds(parameters, "wait", MAX_WAIT_SECONDS) or 0.0
    visibility = read_seconds(
        parameters, "visibility", MAX_VISIBILITY_SECONDS, is_zero_allowed=False
    )
    fetch = store.receive_many(
        target.queue, limit or 1, visibility or store.visibility_seconds, wait
    )
    found = (await unless_client_leaves(request, fetch) if wait else await fetch) or []
    if limit is None:
        return await _answer(store, request, found[0] if found else None)
    return await _answer_many(store, request, found)


async def _receive_by_id(store: Store, request: web.BaseRequest, target: Target) -> Response:
    parameters = target.parameters
    refuse_together(parameters, "id", "wait", "max")
    message_id = parse_message_id(parameters["id"])
    visibility = read_seconds(parameters, "visibility", MAX_VISIBILITY_SECONDS)
    guard = read_guard(request)
    if visibility == 0:
        await store.release_by_id(target.queue, message_id, guard)
        return Answer(204)
    if visibility is None:
        visibility = store.visibility_seconds
    return await _answer(
        store, request, await store.take(target.queue, message_id, visibility, guard)
    )


async def _answer(store: Store, request: web.BaseRequest, received: Received | None) -> Response:
    if received is None:
        return Answer(204)
    if is_client_gone(request):
        return await _put_back(store, [received])
    try:
        return await answer_body(store, request, received, _headers(received))
    except (OSError, asyncio.CancelledError):
        await store.release(received)
        raise


async def _answer_many(
    store: Store, request: web.BaseRequest, found: Sequence[Received]
) -> Response:
    if not found:
        return Answer(204)
    if is_client_gone(request):
        return await _put_back(store, found)
    try:
        return await answer_lines(store, request, found, [_fields(each) for each in found])
    except BaseException:
        for received in found:
            await store.release(received)
        raise


async def _put_back(store: Store, found: Sequence[Received]) -> Answer:
    for received in found:
        store.close_received(received)
        await store.release(received)
    return Answer(204)


def _headers(received: Received) -> dict[str, str]:
    headers = {
        "X-Message-Id": received.message_id,
        "Content-Type": received.content_type or DEFAULT_CONTENT_TYPE,
        "ETag": f'"{received.lease:016x}"',
        "X-Published-At": rfc3339(received.published_ns),
        "X-Visible-At": rfc3339(received.visible_ns),
    }
    if received.receive_count is not None:
        headers["X-Receive-Count"] = str(received.receive_count)
    return headers


def _fields(received: Received) -> dict[str, object]:
    return {
        "id": received.message_id,
        "content_type": received.content_type,
        "lease": f"{received.lease:016x}",
        "receive_count": received.receive_count,
        "published_at": rfc3339(received.published_ns),
        "visible_at": rfc3339(received.visible_ns),
    }
