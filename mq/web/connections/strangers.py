"""Clients of which it is not known who they are.

Until a connection has brought a known token or signature, a refusal is its last answer. A client
that reads no answer could otherwise have the server read ahead of its answers, which takes two MiB,
on each of as many connections as it likes.
"""

from __future__ import annotations

from aiohttp import web

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
