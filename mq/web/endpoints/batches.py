"""Publish a batch over HTTP: `application/x-ndjson`, a line for each message, all of them or
none."""

from __future__ import annotations

from aiohttp import web

from mq.config import MAX_BATCH_BYTES, SMALL_TEXT_BYTES
from mq.errors import InvalidRequest, UnsupportedMediaType
from mq.lines.ndjson import MEDIA_TYPE
from mq.store.publishing.publish import Entry, Published
from mq.store.publishing.readers import Queues
from mq.store.removing.remove_under_lease import Removed
from mq.store.store import Store
from mq.times import rfc3339
from mq.web.answers import Answer
from mq.web.bodies import BodyLimit, read_large_body, read_small_body
from mq.web.endpoints.batch_lines import parse_batch
from mq.web.parameters import Head, Target, read_content_type, refuse_together
from mq.web.properties import refuse_properties_of_batch

_LIMIT = BodyLimit(MAX_BATCH_BYTES, "of a batch")


async def publish_batch(
    store: Store,
    request: web.BaseRequest,
    target: Target,
    also: Queues,
    removes: Removed,
) -> Answer:
    refuse_together(target.parameters, "batch", "delay")
    check_headers(request)

    def entries_of(text: bytes) -> list[Entry]:
        return parse_batch(text, store.max_body_bytes, 1 + len(also))

    async def publish(entries: list[Entry]) -> Answer:
        for queue in {each.queue or target.queue for each in entries}:
            target.require_allowed(queue)
        published = await store.publish_batch(target.queue, entries, also, removes)
        return answer_batch(entries, published)

    body = await read_small_body(store, request, (target.queue, *also), _LIMIT, ids=())
    if len(body) <= SMALL_TEXT_BYTES:
        return await publish(entries_of(bytes(body)))
    async with store.open_upload() as upload:
        await upload.write(await read_large_body(upload, request, body, _LIMIT))
        async with store.batch_slots:
            return await publish(await upload.read_whole(entries_of))


def check_headers(request: Head) -> None:
    """Raise UnsupportedMediaType or InvalidRequest for what the head of a batch may not say."""
    media_type = (read_content_type(request) or "none").partition(";")[0].strip().lower()
    if media_type != MEDIA_TYPE:
        raise UnsupportedMediaType(
            f"a batch has the header Content-Type: {MEDIA_TYPE}; this one has {media_type}"
        )
    if "X-Message-Id" in request.headers:
        raise InvalidRequest("header X-Message-Id: in a batch each line has its own 'id'")
    refuse_properties_of_batch(request)


def answer_batch(entries: list[Entry], published: list[Published]) -> Answer:
    """Answer 201 if any message of the batch is new, or else 200."""
    is_new = any(not each.is_duplicate for each in published)
    lines = "".join([*map(_line, entries, published)]).encode()
    return Answer(201 if is_new else 200, {"Content-Type": MEDIA_TYPE}, lines)


def _line(entry: Entry, published: Published) -> str:
    """Nothing in it is a character that JSON escapes."""
    message_id, visible_ns, is_duplicate = published
    queue = "" if entry.queue is None else f', "queue": "{entry.queue}"'
    visible = "" if visible_ns is None else f', "visible_at": "{rfc3339(visible_ns)}"'
    duplicate = ', "duplicate": true' if is_duplicate else ""
    return f'{{"id": "{message_id}"{queue}{visible}{duplicate}}}\n'
