"""Publish a message over HTTP."""

from __future__ import annotations

import zlib
from dataclasses import replace

from aiohttp import web

from mq.config import MAX_DELAY_SECONDS, SMALL_BODY_BYTES
from mq.errors import InvalidRequest
from mq.names import QueueName
from mq.spool.message.held import NO_FD
from mq.spool.message.trailer import pack_trailer
from mq.store.publishing.publish import Draft, Published
from mq.store.store import Store
from mq.times import in_ns, rfc3339
from mq.web.answers import Answer
from mq.web.bodies import BodyLimit, read_large_body, read_small_body
from mq.web.endpoints import moving
from mq.web.endpoints.batches import publish_batch
from mq.web.parameters import (
    Target,
    read_content_type,
    read_flag,
    read_own_id,
    read_queues,
    read_removes,
    read_seconds,
)
from mq.web.properties import read_properties

ALSO, BATCH, DELAY, REMOVES = "also", "batch", "delay", "removes"
PARAMETERS = frozenset({ALSO, BATCH, DELAY, REMOVES}) | moving.PARAMETERS
QUEUES = frozenset({ALSO})
"""Parameters that may be given more than once."""


async def publish(store: Store, request: web.BaseRequest, target: Target) -> Answer:
    if moving.PARAMETERS & target.parameters.keys():
        if moving.SOURCE in target.parameters:
            return await moving.move(store, request, target)
        raise InvalidRequest("parameters 'id', 'max', 'dead-from' and 'reason' go with 'from' here")
    also = read_queues(target.parameters, ALSO, target.queue) or ()
    removes = read_removes(request, target, REMOVES)
    if target.parameters and read_flag(target.parameters, BATCH):
        return await publish_batch(store, request, target, also, removes)
    content_type = read_content_type(request)
    message_id = read_own_id(request)
    properties = read_properties(request)
    delay_ns = in_ns(read_seconds(target.parameters, DELAY, MAX_DELAY_SECONDS))
    limit = BodyLimit(store.max_body_bytes, "--max-body")
    body = await read_small_body(store, request, (target.queue, *also), limit, (message_id,))
    if len(body) <= SMALL_BODY_BYTES:
        crc32, trailer = zlib.crc32(body), pack_trailer(properties)
        draft = Draft(
            len(body), crc32, content_type, bytes(body), NO_FD, message_id, delay_ns, trailer
        )
        published = await store.publish(target.queue, draft, also, removes)
    else:
        async with store.open_upload() as upload:
            last = await read_large_body(upload, request, body, limit)
            whole = await upload.finish(last, content_type, properties)
            draft = replace(whole, message_id=message_id, delay_ns=delay_ns)
            published = await store.publish(target.queue, draft, also, removes)
    return answer_published(target.queue, published)


def answer_published(queue: QueueName, published: Published) -> Answer:
    """Return the answer to a producer."""
    message_id = published.message_id
    lines = f"X-Message-Id: {message_id}\r\nLocation: /{queue}/messages/{message_id}\r\n"
    if published.visible_ns is not None:
        lines += f"X-Visible-At: {rfc3339(published.visible_ns)}\r\n"
    return Answer(200 if published.is_duplicate else 201, lines)
