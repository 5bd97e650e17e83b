"""Receive over HTTP. A client that went away before its answer never got the message."""

from __future__ import annotations

import asyncio

from aiohttp import web

from mq.config import DEFAULT_CONTENT_TYPE
from mq.errors import InvalidRequest
from mq.store.receive import Received
from mq.store.store import Store
from mq.web.connection import is_client_gone
from mq.web.downloads import answer_body
from mq.web.parameters import Target, read_flag
from mq.web.peeking import peek
from mq.web.times import rfc3339

PARAMETERS = frozenset({"peek", "id", "max"})


async def receive(store: Store, request: web.BaseRequest, target: Target) -> web.StreamResponse:
    if read_flag(target.parameters, "peek"):
        return await peek(store, request, target)
    if target.parameters:
        raise InvalidRequest("parameters 'id' and 'max' go with 'peek'")
    received = await store.receive(target.queue, store.visibility_seconds)
    if received is None:
        return web.Response(status=204)
    if is_client_gone(request):
        store.close_received(received)
        await store.release(received)
        return web.Response(status=204)
    try:
        return await answer_body(store, request, received, _message_headers(received))
    except (OSError, asyncio.CancelledError):
        # A client that goes away before the end of its answer never got the message.
        await store.release(received)
        raise


def _message_headers(received: Received) -> dict[str, str]:
    headers = {
        "X-Message-Id": received.message_id,
        "Content-Type": received.content_type or DEFAULT_CONTENT_TYPE,
        "ETag": f'"{received.lease:016x}"',
        "X-Published-At": rfc3339(received.published_ns),
        "X-Visible-At": rfc3339(received.visible_ns),
        "Cache-Control": "no-store",
    }
    if received.receive_count is not None:
        headers["X-Receive-Count"] = str(received.receive_count)
    return headers
