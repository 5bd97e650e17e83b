"""Publish over HTTP."""

from __future__ import annotations

import zlib

from aiohttp import web

from mq.config import MAX_CONTENT_TYPE_BYTES, SMALL_BODY_BYTES
from mq.errors import InvalidRequest
from mq.store.publish import Draft
from mq.store.store import Store
from mq.web.bodies import read_large_body, read_small_body
from mq.web.parameters import Target


async def publish(store: Store, request: web.BaseRequest, target: Target) -> web.Response:
    content_type = _content_type(request)
    body = await read_small_body(store, request, target.queue)
    if len(body) <= SMALL_BODY_BYTES:
        draft = Draft(len(body), zlib.crc32(body), content_type, bytes(body))
        message_id = await store.publish(target.queue, draft)
    else:
        async with read_large_body(store, request, body, content_type) as draft:
            message_id = await store.publish(target.queue, draft)
    location = f"/{target.queue}/messages/{message_id}"
    return web.Response(status=201, headers={"X-Message-Id": message_id, "Location": location})


def _content_type(request: web.BaseRequest) -> str | None:
    """The producer's type, kept as it is; None if it gave none."""
    values = request.headers.getall("Content-Type", [])
    if not values:
        return None
    if len(values) > 1:
        raise InvalidRequest("header Content-Type stands twice; give it once")
    value = values[0].strip()
    if len(value) > MAX_CONTENT_TYPE_BYTES or not (value.isascii() and value.isprintable()):
        raise InvalidRequest(
            f"header Content-Type has at most {MAX_CONTENT_TYPE_BYTES} printable ASCII characters"
        )
    return value or None
