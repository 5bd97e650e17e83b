"""Publish over HTTP."""

from __future__ import annotations

import zlib
from dataclasses import replace

from aiohttp import web

from mq.config import MAX_CONTENT_TYPE_BYTES, MAX_DELAY_SECONDS, SMALL_BODY_BYTES
from mq.errors import InvalidRequest
from mq.names import MessageId, parse_message_id
from mq.store.publish import Draft
from mq.store.store import Store
from mq.web.bodies import read_large_body, read_small_body
from mq.web.parameters import Target, read_seconds
from mq.web.times import rfc3339

PARAMETERS = frozenset({"delay"})
_NS = 1_000_000_000


async def publish(store: Store, request: web.BaseRequest, target: Target) -> web.Response:
    content_type = read_content_type(request)
    message_id = _own_id(request)
    delay_ns = int((read_seconds(target.parameters, "delay", MAX_DELAY_SECONDS) or 0) * _NS)
    body = await read_small_body(store, request, target.queue)
    if len(body) <= SMALL_BODY_BYTES:
        draft = Draft(
            len(body), zlib.crc32(body), content_type, bytes(body), -1, message_id, delay_ns
        )
        published = await store.publish(target.queue, draft)
    else:
        async with read_large_body(store, request, body, content_type) as upload:
            draft = replace(upload, message_id=message_id, delay_ns=delay_ns)
            published = await store.publish(target.queue, draft)
    headers = {
        "X-Message-Id": published.message_id,
        "Location": f"/{target.queue}/messages/{published.message_id}",
    }
    if published.visible_ns is not None:
        headers["X-Visible-At"] = rfc3339(published.visible_ns)
    return web.Response(status=200 if published.is_duplicate else 201, headers=headers)


def _own_id(request: web.BaseRequest) -> MessageId | None:
    """The producer's own id; None if it gave none."""
    values = request.headers.getall("X-Message-Id", [])
    if len(values) > 1:
        raise InvalidRequest("header X-Message-Id stands twice; give it once")
    return parse_message_id(values[0].strip()) if values else None


def read_content_type(request: web.BaseRequest) -> str | None:
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
