"""Whether a client is still there to be answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from aiohttp import web

from mq.web.answers import Answer, Response
from mq.web.connections.connection import Connection
from mq.web.connections.unread import (
    has_closed,
    is_reset,
    may_have_read_all,
    unacknowledged_bytes,
)

RESET_SECONDS = 1.0
"""How long a client that has closed its own direction has to refuse an answer."""

T = TypeVar("T")

_LOOK_SECONDS = 0.005


async def unless_client_leaves(
    request: web.BaseRequest, work: Awaitable[T], hurry: Callable[[], object]
) -> T | None:
    """Return what `work` returns. If the client leaves before that, `work` is cancelled and None is
    returned. `hurry` is called if the client has only closed its own direction."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    task = asyncio.ensure_future(work)

    def leave() -> None:
        if request.transport is None or request.transport.is_closing():
            task.cancel()
        else:
            hurry()

    connection.when_lost = leave
    if _has_client_closed(request):
        leave()
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            # The server cuts its requests off.
            task.cancel()
            raise
        return None
    finally:
        connection.when_lost = None


async def send_if_half_closed(request: web.BaseRequest, answering: Awaitable[Response]) -> Response:
    """Return the answer, which was sent if the client has closed its own direction. Raises
    ConnectionError if that client is gone, and what `answering` raises."""
    was_there = not _has_client_closed(request)
    answer = await answering
    if not _has_client_closed(request) or (was_there and _may_be_read(request, answer)):
        return answer
    sent = await _send(request, answer)
    if not await _takes_answer(request):
        raise ConnectionResetError("the client is gone")
    return sent


def _may_be_read(request: web.BaseRequest, answer: Response) -> bool:
    """Return whether an answer was written by its handler, and the client has reset its connection
    after that. It may have read all of it: HAProxy resets connections that it keeps no longer."""
    transport = request.transport
    if isinstance(answer, Answer) or transport is None or transport.is_closing():
        return False
    return is_reset(transport) and may_have_read_all(transport)


async def _send(request: web.BaseRequest, answer: Response) -> web.StreamResponse:
    """Write an answer, the last of its connection unless other requests have come behind this one.
    An answer that was written already is left alone."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    response = answer.as_response() if isinstance(answer, Answer) else answer
    if connection.is_last:
        response.force_close()
    await response.prepare(request)
    await response.write_eof()
    return response


def _has_client_closed(request: web.BaseRequest) -> bool:
    """Return whether the client has closed its connection, or at least its own direction of it."""
    transport = request.transport
    return transport is None or transport.is_closing() or has_closed(transport)


async def _takes_answer(request: web.BaseRequest) -> bool:
    """Return whether a client that has closed its own direction takes the answer that was just
    written.

    A client that is gone looks the same until something is sent to it. Its system then refuses
    that; the system of a client that is there acknowledges it.
    """
    end = time.monotonic() + RESET_SECONDS
    while time.monotonic() < end:
        transport = request.transport
        if transport is None or is_reset(transport):
            return False
        if not transport.get_write_buffer_size() and not unacknowledged_bytes(transport):
            return True
        await asyncio.sleep(_LOOK_SECONDS)
    return True
