"""The answer of most handlers: whole, in memory, and written in one piece."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from time import time

from aiohttp import HttpVersion11, web

OUR_HEADERS = {
    "Cache-Control": "no-store, no-transform",
    "Server": "mq",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
}
"""Headers of every answer. A producer chooses what a body is, so a browser must neither guess its
type nor run it as if it came from MQ. A proxy that compressed an answer would also change its ETag,
which is a lease (RFC 9110, section 7.7)."""

AS_FILE = {"Content-Disposition": "attachment"}
"""A browser saves an answer that contains bodies of messages, and does not show it."""

ROOT_ID = "X-Root-Id"
"""The header that tells the root of a server, on the answers that clients compare."""


_NO_CONTENT = int(HTTPStatus.NO_CONTENT)

_LINE = "%s: %s\r\n".__mod__
_CLOSE = "Connection: close\r\n"


class Answer:
    """All that aiohttp needs of a response: status, headers, and a body in bytes.

    Making and writing a `web.Response`, which can do far more, takes a fifth of the event loop's
    time for a small message. One is made only where the connection ends, and for HTTP/1.0.
    """

    __slots__ = ("_body", "_headers", "keep_alive", "status")

    def __init__(
        self, status: int, headers: Mapping[str, str] | str = "", body: bytes = b""
    ) -> None:
        """Take the headers as names and values, or as the lines that `lines_of` makes of them."""
        self.status = status
        self._headers = headers
        self._body = body
        self.keep_alive: bool | None = None

    @property
    def length(self) -> int:
        """The length of the body, in bytes."""
        return len(self._body)

    def force_close(self) -> None:
        """Close the connection after the answer."""
        self.keep_alive = False

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write the answer. Raises ConnectionError if the client is gone, ValueError if a header
        has a line break in it."""
        is_usual = request.version == HttpVersion11 and request.keep_alive
        if not is_usual or self.keep_alive is False:
            await self._prepare_unusual(request)
            return
        self.keep_alive = True
        data, self._body = self._head() + self._body, b""  # The connection keeps its last answer.
        await request.writer.write_eof(data)

    async def write_eof(self) -> None:
        """Do nothing: `prepare` has written all of it."""

    def to_bytes(self, is_last: bool) -> bytes:
        """Return the bytes for a client of HTTP/1.1; the same answer may be given to several.
        Raises ValueError as `prepare` does."""
        return self._head(_CLOSE if is_last else "") + self._body

    def _lines(self) -> str:
        headers = self._headers
        return headers if isinstance(headers, str) else lines_of(headers)

    def _head(self, more: str = "") -> bytes:
        seconds = int(time())
        if not (self._headers or self._body or more):
            return _bare_head(self.status, seconds)
        lines = self._lines() + more
        if self.status != _NO_CONTENT:
            lines = f"{lines}Content-Length: {len(self._body)}\r\n"
        return f"{_first_lines(self.status, seconds)}{lines}\r\n".encode()

    def as_response(self) -> web.Response:
        headers = {**read_lines(self._lines()), **OUR_HEADERS}
        response = web.Response(status=self.status, headers=headers, body=self._body)
        if self.keep_alive is False:
            response.force_close()
        return response

    async def _prepare_unusual(self, request: web.BaseRequest) -> None:
        response = self.as_response()
        self._body = b""
        await response.prepare(request)
        await response.write_eof()
        self.keep_alive = response.keep_alive


def lines_of(headers: Mapping[str, str]) -> str:
    """Return headers as the lines of a head. Raises ValueError if one has a line break in it."""
    lines = "".join(map(_LINE, headers.items()))
    if lines.count("\r") + lines.count("\n") != 2 * len(headers):
        raise ValueError(f"a header has a line break in it: {headers}")
    return lines


def read_lines(lines: str) -> dict[str, str]:
    """Return the headers that `lines_of` has made lines of."""
    return dict(line.split(": ", 1) for line in lines.split("\r\n")[:-1])


@lru_cache(maxsize=16)
def _first_lines(status: int, seconds: int) -> str:
    """Return the first lines, which all answers of that status have in common within a second."""
    headers = {**OUR_HEADERS, "Date": formatdate(seconds, usegmt=True)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}"


@lru_cache(maxsize=16)
def _bare_head(status: int, seconds: int) -> bytes:
    """Return the head of an answer that has no headers of its own and no body."""
    length = "" if status == _NO_CONTENT else "Content-Length: 0\r\n"
    return f"{_first_lines(status, seconds)}{length}\r\n".encode()


Response = web.StreamResponse | Answer
"""What a handler returns."""

HttpHandler = Callable[[web.BaseRequest], Awaitable[Response]]
"""Answers every request of a listener."""
