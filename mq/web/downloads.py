"""Answers that carry bodies: one as it is, or many as ndjson. Large ones are streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from aiohttp import web

from mq.config import MAX_FETCH_BYTES
from mq.ndjson import MEDIA_TYPE, LongLine, write_line
from mq.store.lease import Received
from mq.store.peek import Peeked
from mq.store.store import Store
from mq.web.answers import OUR_HEADERS, Answer, Response

Message = Received | Peeked


async def answer_body(
    store: Store, request: web.BaseRequest, message: Message, headers: Mapping[str, str]
) -> Response:
    """The body as it is. Raises OSError if the client goes away before its end, or it cannot be
    read."""
    if message.body is not None:
        return Answer(200, headers, message.body)
    async with store.open_download(message) as download:
        return await _stream(request, headers, message.length, download.chunks())


async def answer_lines(
    store: Store,
    request: web.BaseRequest,
    messages: Sequence[Message],
    fields: Sequence[Mapping[str, object]],
) -> Response:
    """A line a message, with its `fields`. Raises OSError as `answer_body` does."""
    headers = {"Content-Type": MEDIA_TYPE}
    if len(messages) == 1 and messages[0].length > MAX_FETCH_BYTES:
        line = LongLine(fields[0], messages[0].length)
        async with store.open_download(messages[0]) as download:
            chunks = line.chunks(download.chunks())
            return await _stream(request, headers, line.length, chunks)
    body = await store.read_bodies(
        messages, lambda bodies: b"".join(map(write_line, fields, bodies))
    )
    return Answer(200, headers, body)


async def _stream(
    request: web.BaseRequest,
    headers: Mapping[str, str],
    length: int,
    chunks: AsyncIterator[bytes],
) -> web.StreamResponse:
    response = web.StreamResponse(headers={**headers, **OUR_HEADERS})
    response.content_length = length
    await response.prepare(request)
    async for chunk in chunks:
        await response.write(chunk)
    await response.write_eof()
    return response
