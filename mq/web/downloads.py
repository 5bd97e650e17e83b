"""Answers with bodies of messages: one body as it is, or many as ndjson. Large ones are
streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from aiohttp import web

from mq.config import CHUNK_BYTES, SMALL_BODY_BYTES
from mq.lines.ndjson import MEDIA_TYPE, LongLine, end_line
from mq.store.answer_memory import Share
from mq.store.bodies import are_few_in_memory, total_length
from mq.store.peeking.peeked_message import PeekedMessage
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from mq.web.answers import AS_FILE, OUR_HEADERS, Answer, Response, lines_of, read_lines
from mq.web.connections.connection import Connection

Message = Received | PeekedMessage

_AS_FILE = lines_of(AS_FILE)
_LINES = {"Content-Type": MEDIA_TYPE, **AS_FILE}


async def answer_body(
    store: Store, request: web.BaseRequest, message: Message, lines: str
) -> Response:
    """Answer with the body as it is. `lines` are those of `mq.web.answers.lines_of`. Raises OSError
    if the client goes away before its end, or if it cannot be read."""
    body = message.body
    if body is not None and len(body) <= SMALL_BODY_BYTES:
        return answer_small_body(body, lines)
    headers = {**read_lines(lines), **AS_FILE}
    if body is not None:
        return await _stream(request, headers, len(body), _whole(body))
    async with store.open_download(message) as download:
        return await _stream(request, headers, message.length, download.chunks())


def answer_small_body(body: bytes, lines: str) -> Answer:
    """Answer with the body of a message that is in memory."""
    return Answer(200, lines + _AS_FILE, body)


async def answer_lines(
    store: Store,
    request: web.BaseRequest,
    messages: Sequence[Message],
    members: Sequence[str],
    share: Share,
) -> Response:
    """Answer with a line for each message and its `members`, as `mq.lines.ndjson.write_members`
    writes them. Raises OSError as `answer_body` does.

    `share` holds the memory of what the client has not read yet.
    """
    length = total_length(messages)
    is_in_file = messages[0].body is None
    if len(messages) == 1 and is_in_file and not share.covers(length):
        line = LongLine(members[0], length)
        async with store.open_download(messages[0]) as download:
            chunks = line.chunks(download.chunks())
            return await _stream(request, _LINES, line.length, chunks)
    write = _write_few_lines if are_few_in_memory(messages) else _write_lines
    pieces = await store.read_bodies(messages, lambda bodies: write(members, bodies))
    length = sum(map(len, pieces))
    if length <= SMALL_BODY_BYTES:
        return Answer(200, _LINES, b"".join(pieces))
    # Small bodies stay with their messages until the end.
    kept = sum(len(each.body) for each in messages if each.body is not None)
    return await _stream(request, _LINES, length, _let_go(pieces, kept, share))


def answer_few_lines(members: Sequence[str], bodies: Iterable[bytes]) -> Answer:
    """Answer as `answer_lines` does, with bodies that are few and in memory."""
    return Answer(200, _LINES, b"".join(_write_few_lines(members, bodies)))


async def answer_in_pieces(
    request: web.BaseRequest, answer: Answer, share: Share
) -> web.StreamResponse:
    """Answer with a body that is in memory, and large. `share` holds its memory until the client
    has read it. Raises OSError if the client goes away before its end."""
    whole = answer.as_response()
    body = whole.body
    assert isinstance(body, bytes)
    return await _stream(request, whole.headers, len(body), _let_go([body], 0, share))


def _write_few_lines(members: Sequence[str], bodies: Iterable[bytes]) -> list[bytes]:
    return [b"".join(map(end_line, members, bodies))]


def _write_lines(members: Sequence[str], bodies: Iterable[bytes]) -> list[bytes]:
    """Write the lines in pieces of about CHUNK_BYTES."""
    pieces: list[bytes] = []
    lines: list[bytes] = []
    length = 0
    for line in map(end_line, members, bodies):
        lines.append(line)
        length += len(line)
        if length >= CHUNK_BYTES:
            pieces.append(b"".join(lines))
            lines.clear()
            length = 0
    pieces.append(b"".join(lines))
    return pieces


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    """Yield a body that is in memory and too large to be in the hands of the kernel at once."""
    yield body


async def _let_go(pieces: list[bytes], kept: int, share: Share) -> AsyncIterator[bytes]:
    """Yield each piece when the one before it has gone to the client."""
    left = sum(map(len, pieces))
    pieces.reverse()
    while pieces:
        share.hold(kept + left)
        piece = pieces.pop()
        left -= len(piece)
        for start in range(0, len(piece), CHUNK_BYTES):
            yield piece[start : start + CHUNK_BYTES]


async def _stream(
    request: web.BaseRequest,
    headers: Mapping[str, str],
    length: int,
    chunks: AsyncIterator[bytes],
) -> web.StreamResponse:
    connection = request.protocol
    assert isinstance(connection, Connection)
    response = web.StreamResponse(headers={**headers, **OUR_HEADERS})
    response.content_length = length
    if connection.is_last:
        response.force_close()
    await response.prepare(request)
    async for chunk in chunks:
        await response.write(chunk)
    await response.write_eof()
    return response
