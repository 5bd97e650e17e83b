"""The six endpoints: from HTTP to the store and back. `docs/protocol.md` says what clients see."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from typing import NamedTuple

from aiohttp import web

from mq.config import DEFAULT_CONTENT_TYPE, MAX_CONTENT_TYPE_BYTES, SMALL_BODY_BYTES
from mq.errors import InvalidRequest
from mq.names import MessageId, QueueName, parse_message_id
from mq.store.publish import Draft
from mq.store.receive import Received
from mq.store.store import Store
from mq.web.bodies import read_large_body, read_small_body
from mq.web.connection import is_client_gone
from mq.web.times import rfc3339

_EMPTY_ELEMENTS = " \t,"
"""Stand for nothing in a list (RFC 9110, section 5.6.1)."""

_ENTITY_TAG = re.compile(r'(W/)?"([^"]*)"[ \t]*(?:,[ \t,]*|$)')
_LEASE = re.compile(r"[0-9a-f]{16}")


class Target(NamedTuple):
    """What a request is about: a checked queue name, the id as it came, the parameters."""

    queue: QueueName
    message_id: str
    parameters: dict[str, str]


async def create_queue(store: Store, request: web.BaseRequest, target: Target) -> web.Response:
    if await store.create_queue(target.queue):
        return web.Response(status=201, headers={"Location": f"/{target.queue}"})
    return web.Response(status=200)


async def describe_queue(store: Store, request: web.BaseRequest, target: Target) -> web.Response:
    info = await store.describe_queue(target.queue)
    document = {
        "queue": info.queue,
        "ready": info.ready,
        "leased": info.leased,
        "delayed": info.delayed,
        "oldest_age_seconds": info.oldest_age_seconds,
    }
    return web.Response(body=json.dumps(document).encode() + b"\n", content_type="application/json")


async def delete_queue(store: Store, request: web.BaseRequest, target: Target) -> web.Response:
    await store.delete_queue(target.queue)
    return web.Response(status=200)


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


async def remove(store: Store, request: web.BaseRequest, target: Target) -> web.Response:
    message_id: MessageId = parse_message_id(target.message_id)
    await store.remove(target.queue, message_id, _leases(request))
    return web.Response(status=202)


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


def _leases(request: web.BaseRequest) -> frozenset[int] | None:
    """The leases in If-Match (RFC 9110, section 13.1.1); None if any will do.

    A tag that is no lease of ours, or a weak one, matches nothing.
    """
    values = request.headers.getall("If-Match", [])
    text = ",".join(values)
    if not values or text.strip() == "*":
        return None
    rest = text.strip(_EMPTY_ELEMENTS)
    leases = set()
    while tag := _ENTITY_TAG.match(rest):
        if tag[1] is None and _LEASE.fullmatch(tag[2]) and int(tag[2], 16):
            leases.add(int(tag[2], 16))
        rest = rest[tag.end() :]
        if not rest:
            return frozenset(leases)
    raise InvalidRequest(
        f"header If-Match {text!r}: give the ETag as it came, quotes included; "
        "separate several by commas"
    )
