"""Clients of which it is not known who they are.

Until a connection has brought a known token or signature, a refusal is its last answer. A client
that reads no answer could otherwise have the server read ahead of its answers, which takes a MiB,
on each of as many connections as it likes.
"""

from __future__ import annotations

from typing import Protocol

from aiohttp import web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import _ErrInfo

from mq.web.connections.connection import Connection


def note_known(request: web.BaseRequest) -> None:
    """Note that the client has shown who it is."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    connection.is_known = True


def end_if_unknown(request: web.BaseRequest) -> None:
    """End the connection after the answer to this request, unless its client is known."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    if not connection.is_known:
        connection.drop_rest("the request was refused")


class Doorkeeper(Protocol):
    """Something that knows by a request's head whether its client is refused."""

    def refuses(self, message: RawRequestMessage) -> bool: ...


def keep_only_refused(connection: Connection, doorkeeper: Doorkeeper | None) -> None:
    """Drop what has come behind the first request of a connection, and its body, if its client is
    refused. The handler, which answers it, comes some turns of the event loop later: until then
    each of many connections would hold all that was read of it."""
    waiting = len(connection._messages)
    if doorkeeper is None or not waiting or waiting < connection._request_count:
        return
    message, body = connection._messages[0]
    if isinstance(message, _ErrInfo) or not doorkeeper.refuses(message):
        return
    connection.drop_rest("the client is not known")
    if body is not EMPTY_PAYLOAD:
        body._buffer.clear()
    connection._messages.append((message, body))
