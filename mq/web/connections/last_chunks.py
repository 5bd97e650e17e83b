"""What comes behind a body in chunks has no headers but its own.

Such a body may end with trailers (RFC 9112, section 7.1.2). aiohttp's parser in C keeps the last
one, and gives it to the next request that it reads, as its first header. It says neither whether
there were trailers nor where a body ended, so the bytes are followed here too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum, auto

from aiohttp import hdrs
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

_LINE_END = b"\r\n"
_END = b"\r\n\r\n"
_EMPTY_LINES = re.compile(rb"[\r\n]*")
_CHUNK = re.compile(rb"([0-9A-Fa-f]++)[^\r\n]*+\r\n")


class _Part(Enum):
    """What comes next on a connection."""

    HEAD = auto()
    CHUNK = auto()
    TRAILER = auto()


class LastChunks:
    """How far the bytes of one connection have been followed, and what they end with.

    `_came` is what the parser may not have seen yet, or what cannot be told yet; `_next` begins at
    `_at` in it, or so far behind it. `_body` is the last body if it is in chunks, until other bytes
    than its own are read by a new parser.
    """

    __slots__ = ("_at", "_body", "_came", "_has_trailer", "_next")

    def __init__(self) -> None:
        self._body: StreamReader | None = None
        self._has_trailer = False
        self._next = _Part.HEAD
        self._came = b""
        self._at = 0

    @property
    def is_clear(self) -> bool:
        """Whether what comes next is a head, and comes behind no chunks."""
        return self._body is None and not self._came

    def count_clean(
        self,
        data: bytes,
        came: Sequence[tuple[RawRequestMessage, StreamReader]],
        is_held_back: bool,
    ) -> int:
        """Follow a piece, and return how many of the requests that came with it have no header of
        another: those before the first one that comes behind a trailer. `is_held_back` means that
        the parser may not have seen all of the piece yet."""
        if data:
            self._let_go()
            self._came += data
        for number, (message, payload) in enumerate(came):
            self._pass_chunks()
            if self._has_trailer or not self._pass_head(message):
                return number
            self._begin_body(message, payload)
        self._pass_chunks()
        if self._at >= len(self._came):
            self._let_go()
        elif not is_held_back:
            self._let_go()
            self._shorten_head()
        return len(came)

    def may_hide_trailer(self) -> bool:
        """Return whether something has begun to come behind a body with trailers."""
        is_whole = self._body is not None and self._body.is_eof()
        return is_whole and self._has_trailer and self._at < len(self._came)

    def are_over(self) -> bool:
        """Return whether a body in chunks was the last that came. From then on another parser must
        read what comes."""
        is_last = self._next is _Part.HEAD and self._at >= len(self._came)
        if self._body is None or not (is_last and self._body.is_eof()):
            return False
        self._body, self._has_trailer = None, False
        return True

    def _pass_head(self, message: RawRequestMessage) -> bool:
        """Pass a head. Return False if it is not where it should be."""
        if self._next is not _Part.HEAD:
            return False
        found = _EMPTY_LINES.match(self._came, self._at)
        assert found is not None
        end = self._came.find(_END, found.end())
        words = f"{message.method} {message.path} ".encode("utf-8", "surrogateescape")
        is_elsewhere = self._body is not None and not self._came.startswith(words, found.end())
        if end < 0 or is_elsewhere:
            return False
        self._at = end + len(_END)
        return True

    def _begin_body(self, message: RawRequestMessage, payload: StreamReader) -> None:
        self._body = payload if message.chunked else None
        if message.chunked:
            self._next = _Part.CHUNK
        elif payload is not EMPTY_PAYLOAD:
            self._at += int(message.headers.get(hdrs.CONTENT_LENGTH, 0))

    def _pass_chunks(self) -> None:
        """Pass as much of a body in chunks as has come. The parser may not be there yet, and find
        something wrong: this stops there."""
        came, at = self._came, self._at
        while self._next is _Part.CHUNK and (chunk := _CHUNK.match(came, at)):
            length, at = int(chunk[1], 16), chunk.end()
            if length:
                at += length + len(_LINE_END)
            else:
                self._next = _Part.TRAILER
        while self._next is _Part.TRAILER and (end := came.find(_LINE_END, at)) >= 0:
            if end == at:
                self._next = _Part.HEAD
            else:
                self._has_trailer = True
            at = end + len(_LINE_END)
        self._at = at

    def _let_go(self) -> None:
        """Keep nothing of what was passed."""
        passed = self._at
        self._at = max(0, passed - len(self._came))
        self._came = self._came[passed:]

    def _shorten_head(self) -> None:
        """Keep only the first and the last bytes of a head that has begun behind no chunks: they
        are enough to find its end."""
        if self._next is _Part.HEAD:
            self._came = self._came.lstrip(_LINE_END)
            if self._body is None and len(self._came) > len(_END):
                self._came = self._came[:1] + self._came[1 - len(_END) :]
