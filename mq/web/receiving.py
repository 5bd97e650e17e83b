"""Receive over HTTP. A client that went away before its answer never got the message."""

from __future__ import annotations

import asyncio

from aiohttp import web

from mq.config import DEFAULT_CONTENT_TYPE
from mq.store.receive import Received
from mq.store.store import Store
from mq.web.connection import is_client_gone
from mq.web.parameters import Target
from mq.web.times import rfc3339


async def receive(store: Store, request: web.BaseRequest, target: Target) -> web.StreamResponse:
    received = await store.receive(target.queue, store.visibility_seconds)
    if received is None:
        return web.Response(status=204)
    if is_client_gone(request):
        store.close_received(received)
        await store.release(received)
        return web.Response(status=204)
    if received.body is not None:
        return web.Response(body=received.body, headers=_message_headers(received))
    return await _stream(store, request, received)


async def _stream(store: Store, request: web.BaseRequest, received: Received) -> web.StreamResponse:
    """Send a large body. A client that goes away before its end never got the message."""
    response = web.StreamResponse(headers=_message_headers(received))
    response.content_length = received.length
    response.headers["Server"] = "mq"
    async with store.open_download(received) as download:
        try:
            await response.prepare(request)
            async for chunk in download.chunks():
                await response.write(chunk)
            await response.write_eof()
        except (OSError, asyncio.CancelledError):
            await store.release(received)
            raise
    return response


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
