"""The parser of a connection, and how far it reads ahead of the answers."""

from __future__ import annotations

from aiohttp import web
from aiohttp.http_parser import HttpRequestParser

MAX_WAITING_REQUESTS = 8
"""How many requests of a connection are parsed before the first of them is answered. They are
answered one after the other, so more would make none of them faster, and a head of the longest size
takes 50 KiB once it is parsed."""


def bound_waiting(connection: web.RequestHandler) -> None:
    """Let a connection that nothing has come from parse MAX_WAITING_REQUESTS at once, and read on
    when half of them are left."""
    connection._max_msg_queue_size = MAX_WAITING_REQUESTS
    connection._msg_queue_resume_size = MAX_WAITING_REQUESTS // 2
    connection._parser = new_parser(connection)


def new_parser(connection: web.RequestHandler) -> HttpRequestParser:
    """Return a parser like the one that a connection begins with."""
    return HttpRequestParser(
        connection,
        connection._loop,
        connection._read_bufsize,
        max_line_size=connection.max_line_size,
        max_field_size=connection.max_field_size,
        max_headers=connection.max_headers,
        payload_exception=web.RequestPayloadError,
        auto_decompress=False,
        max_msg_queue_size=connection._max_msg_queue_size,
    )
