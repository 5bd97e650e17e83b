"""Read a request's body: a small one into memory, a larger one straight into an unnamed file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from aiohttp import StreamReader, web

from mq.config import CHUNK_BYTES, SMALL_BODY_BYTES
from mq.errors import BodyTooLarge, BodyUnreadable, ExpectationFailed, RequestTimeout
from mq.names import QueueName
from mq.store.bodies import Upload
from mq.store.publishing.own_id import Ids
from mq.store.store import Store
from mq.web.connections.connection import Connection
from mq.web.connections.unread import MIN_BODY_BYTES_PER_SECOND
from mq.web.parameters import HEADER_SPACE

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class BodyLimit(NamedTuple):
    """The most bytes that a body may have, and what sets that."""

    length: int
    name: str


async def read_small_body(
    store: Store,
    request: web.BaseRequest,
    queues: Sequence[QueueName],
    limit: BodyLimit,
    ids: Ids = (None,),
) -> bytes | bytearray:
    """Return the whole body, if it has up to SMALL_BODY_BYTES, or else a longer piece of its
    beginning. `queues` are where it would be published, none if only the body says that; `ids` are
    those under which it would be, or none if only the body says that.

    A refusal that does not depend on the body comes first, so that a client which waits for `100
    Continue` never sends it. Raises BodyTooLarge, BodyUnreadable, QueueNotFound, StoreUnavailable,
    ExpectationFailed.
    """
    declared = request.content_length
    _check_length(declared or 0, limit)
    if declared is None or declared > SMALL_BODY_BYTES or "Expect" in request.headers:
        await _send_continue(store, request, queues, ids)
    body = await _read(request, SMALL_BODY_BYTES + 1)
    _check_length(len(body), limit)
    return body


async def read_large_body(
    upload: Upload, request: web.BaseRequest, body: bytes | bytearray, limit: BodyLimit
) -> bytes | bytearray:
    """Read a body that begins with `body` into an upload, all but its last piece, which is
    returned. Raises BodyTooLarge, BodyUnreadable, StoreUnavailable."""
    if not request.content.at_eof():
        body = bytes(body) + await _read(request, CHUNK_BYTES - len(body))
    while not request.content.at_eof():
        _check_length(upload.length + len(body), limit)
        await upload.write(body)
        body = await _read(request, CHUNK_BYTES)
    _check_length(upload.length + len(body), limit)
    return body


async def has_body(request: web.BaseRequest) -> bool:
    """Return whether a request has a body with something in it. One in chunks says that only when
    they come. Raises BodyUnreadable."""
    if request.content_length is None and request.can_read_body and "Expect" not in request.headers:
        return bool(await _read(request, 1))
    return request.can_read_body


async def _send_continue(
    store: Store, request: web.BaseRequest, queues: Sequence[QueueName], ids: Ids
) -> None:
    """Send `100 Continue` if the publish would be taken (RFC 9110, section 10.1.1)."""
    expectation = ",".join(request.headers.getall("Expect", ()))
    asked = {each.strip(HEADER_SPACE).lower() for each in expectation.split(",")}
    if not asked <= {"100-continue", ""}:
        raise ExpectationFailed(f"header Expect {expectation!r}: only 100-continue is known")
    for queue in queues:
        await store.check_publish(queue, (request.content_length or 0) * len(queues), ids)
    if "Expect" in request.headers and request.version >= (1, 1) and request.transport is not None:
        request.transport.write(_CONTINUE)


async def _read(request: web.BaseRequest, length: int) -> bytes | bytearray:
    """Return about `length` bytes, and fewer only at the body's end."""
    content, connection = request.content, request.protocol
    assert isinstance(connection, Connection)
    try:
        if content.is_eof():
            # All of the body is here, like that of nearly every small message.
            return await content.readany()
        body = await _gather(content, length, connection.body_timeout_seconds)
        if (broken := content.exception()) is not None:
            raise broken
        return body
    except TimeoutError:
        reason = "the body stopped or came too slowly (--body-timeout); nothing was stored"
        connection.break_off(reason)
        raise RequestTimeout(reason) from None
    except (web.RequestPayloadError, ConnectionError) as error:
        raise BodyUnreadable(f"the body broke off or broke its framing: {error}") from error
    except RuntimeError as error:
        if connection.connected:
            raise
        # aiohttp raises this if the client left before its body was asked for.
        raise BodyUnreadable("the client is gone") from error


async def _gather(content: StreamReader, length: int, timeout_seconds: float) -> bytes | bytearray:
    """Gather pieces. Raises TimeoutError if one piece, or all of them together, come too slowly."""
    clock = asyncio.get_running_loop().time
    end = clock() + timeout_seconds + length / MIN_BODY_BYTES_PER_SECOND
    body: bytes | bytearray = b""
    while len(body) < length and not content.at_eof():
        async with asyncio.timeout_at(min(end, clock() + timeout_seconds)):
            piece = await content.readany()
        if not body:
            body = piece
            continue
        if isinstance(body, bytes):
            body = bytearray(body)
        body += piece
    return body


def _check_length(length: int, limit: BodyLimit) -> None:
    if length > limit.length:
        raise BodyTooLarge(f"the body has more than {limit.length} bytes ({limit.name}); send less")
