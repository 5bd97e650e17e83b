"""Parsed requests that are here as a whole, and can be answered at once."""

from __future__ import annotations

from aiohttp import HttpVersion11
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from multidict import istr

from mq.web.connections.framing import TRANSFER_ENCODING, has_lost_body
from mq.web.connections.quick_connection import QuickConnection

_EXPECT = istr("Expect")


def is_plain(connection: QuickConnection, message: RawRequestMessage, body: StreamReader) -> bool:
    """Return whether nothing about the connection or the framing is unusual, and all of the request
    is here. A client that has not read the last answer goes the usual way."""
    transport = connection.own_transport
    return (
        message.version == HttpVersion11
        and not (message.should_close or message.upgrade)
        and _EXPECT not in message.headers
        and TRANSFER_ENCODING not in message.headers
        and body.is_eof()
        and not has_lost_body(message.headers, body)
        and transport is not None
        and not transport.get_write_buffer_size()
    )


def whole_body(body: StreamReader) -> bytes:
    """Return all of a body, which stays there for the usual way."""
    if body is EMPTY_PAYLOAD:
        return b""
    pieces = body._buffer
    return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)
