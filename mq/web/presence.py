"""Whether a client is still there to be answered."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiohttp import web

from mq.web.connection import Connection

T = TypeVar("T")

_GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR | select.POLLNVAL


async def unless_client_leaves(request: web.BaseRequest, work: Coroutine[Any, Any, T]) -> T | None:
    """What `work` returns. It is cancelled when the client leaves before; None then."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    task = asyncio.ensure_future(work)
    connection.when_lost = task.cancel
    if request.transport is None or request.transport.is_closing():
        task.cancel()
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


def is_client_gone(request: web.BaseRequest) -> bool:
    """Whether the client has closed its connection, as far as this machine knows.

    One poll(2): the event loop may not have come to the socket's end yet.
    """
    transport = request.transport
    if transport is None or transport.is_closing():
        return True
    socket = transport.get_extra_info("socket")
    if socket is None:
        return False
    poll = select.poll()
    poll.register(socket, select.POLLRDHUP)
    return any(events & _GONE for _, events in poll.poll(0))
