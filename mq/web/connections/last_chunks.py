"""What comes behind a body in chunks has no headers but its own.

Such a body may end with trailers (RFC 9112, section 7.1.2). aiohttp's parser in C keeps the last
one, and gives it to the next request that it reads, as its first header.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from aiohttp import web
from aiohttp.http_parser import HttpRequestParser, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from mq.config import KIB

MAX_KEPT_BYTES = 512 * KIB
"""Twice what the event loop reads at once: a parser that holds something back has not seen that
much, and a client that goes on sending may let it do so for ever."""

_END = b"\r\n\r\n"
_WITHOUT_TRAILERS = b"\r\n0" + _END
"""The end of a body in chunks that has no trailers, as all clients write it."""


class LastChunks:
    """What one connection has sent since the head of its last request, if that is in chunks, or
    that its parser may not have seen yet."""

    __slots__ = ("_body", "_came", "_has_ended")

    def __init__(self) -> None:
        self._body: StreamReader | None = None
        self._came = b""
        self._has_ended = False

    @property
    def is_clear(self) -> bool:
        """Whether what comes next comes behind no chunks."""
        return self._body is None and not self._came

    def count_clean(
        self,
        data: bytes,
        came: Sequence[tuple[RawRequestMessage, StreamReader]],
        is_held_back: bool,
    ) -> int:
        """Return how many of the requests that came with a piece have no header of another: those
        before the first one that may come behind a trailer. `is_held_back` means that the parser
        may not have seen all of the piece yet."""
        body, seen = self._body, self._came + data
        for number, (message, payload) in enumerate(came):
            if body is not None and not _comes_behind_end(seen, _first_words(message), came):
                return number
            body = payload if message.chunked else None
        self._has_ended = body is not None and body.is_eof() and not is_held_back
        if not (self._has_ended or is_held_back):
            seen = b"" if body is None else seen[1 - len(_WITHOUT_TRAILERS) :]
        self._body, self._came = body, seen[-MAX_KEPT_BYTES:]
        return len(came)

    def may_hide_trailer(self) -> bool:
        """Return whether trailers may be before what has begun to come behind the body."""
        if not self._has_ended or self._came.endswith(_END):
            return False
        _, end, behind = self._came.rpartition(_WITHOUT_TRAILERS)
        return not end or _END in behind

    def are_over(self) -> bool:
        """Return whether the body was the last that came. From then on another parser must read
        what comes."""
        if not (self._has_ended and self._came.endswith(_END)):
            return False
        self._body, self._came, self._has_ended = None, b"", False
        return True


def _comes_behind_end(
    seen: bytes, words: bytes, came: Sequence[tuple[RawRequestMessage, StreamReader]]
) -> bool:
    """Return whether all requests that begin with these words come behind the end of a body in
    chunks without trailers, or behind a request without a body. A body may contain what looks like
    that end with such a beginning, so it is not enough that there is one: behind trailers the real
    beginning has another end before it."""
    clean = seen.count(_WITHOUT_TRAILERS + words)
    behind_heads = sum(
        before is EMPTY_PAYLOAD and _first_words(message) == words
        for (_, before), (message, _) in pairwise(came)
    )
    return clean > 0 and seen.count(_END + words) <= clean + behind_heads


def _first_words(message: RawRequestMessage) -> bytes:
    return f"{message.method} {message.path} ".encode("utf-8", "surrogateescape")


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
