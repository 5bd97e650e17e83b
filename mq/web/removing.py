"""Remove over HTTP."""

from __future__ import annotations

from aiohttp import web

from mq.names import MessageId, parse_message_id
from mq.store.store import Store
from mq.web.parameters import Target, read_leases


async def remove(store: Store, request: web.BaseRequest, target: Target) -> web.Response:
    message_id: MessageId = parse_message_id(target.message_id)
    await store.remove(target.queue, message_id, read_leases(request))
    return web.Response(status=202)
