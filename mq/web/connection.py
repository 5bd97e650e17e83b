"""Connections: aiohttp's low-level server, with its own error pages turned into problem+json."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from email.utils import formatdate
from typing import Any, NamedTuple, cast

import structlog
from aiohttp import web
from aiohttp.web_protocol import _ErrInfo

from mq.config import FIRST_REQUEST_SECONDS, KEEPALIVE_SECONDS, REFUSED_SECONDS
from mq.errors import StoreUnavailable
from mq.web.answers import OUR_HEADERS, Response
from mq.web.problems import (
    BAD_HTTP,
    DEFECT,
    REQUEST_TIMEOUT,
    error_response,
    problem_document,
    problem_response,
)

log = structlog.get_logger(__name__)


def _late_head_answer() -> bytes:
    """Made by hand: there is no request to answer."""
    document = problem_document(
        REQUEST_TIMEOUT, "the request's head was not there in time (--header-timeout)"
    )
    body = json.dumps(document).encode() + b"\n"
    head = (
        "HTTP/1.1 408 Request Timeout",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        f"Date: {formatdate(usegmt=True)}",
        "Cache-Control: no-store",
        "Server: mq",
        "Connection: close",
    )
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


RequestHandler = Callable[[web.BaseRequest], Awaitable[Response]]


class Limits(NamedTuple):
    """What clients may take: connections at once (0 for any number), seconds for a request's head,
    seconds between two pieces of its body."""

    max_connections: int = 0
    header_timeout_seconds: float = 30.0
    body_timeout_seconds: float = 60.0


class Connection(web.RequestHandler):
    """One client's connection. `when_lost` is called when it ends, if somebody wants to know;
    `is_refused` is one too many."""

    __slots__ = (
        "_has_begun_head",
        "_head_timer",
        "_header_timeout_seconds",
        "body_timeout_seconds",
        "is_refused",
        "when_lost",
    )

    def __init__(self, *arguments: Any, limits: Limits, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.when_lost: Callable[[], object] | None = None
        self.is_refused = False
        self.body_timeout_seconds = limits.body_timeout_seconds
        self._header_timeout_seconds = limits.header_timeout_seconds
        self._head_timer: asyncio.TimerHandle | None = None
        self._has_begun_head = False

    def refuse(self) -> None:
        """Answer its first request 503, and close it."""
        self.is_refused = True
        self._header_timeout_seconds = min(self._header_timeout_seconds, REFUSED_SECONDS)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._stop_head_timer()
        if self.when_lost is not None:
            self.when_lost()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._messages or self._current_request is not None:
            if self._head_timer is not None:
                self._stop_head_timer()
        else:
            self._has_begun_head = True
            self._await_head()
        if self._messages and isinstance(self._messages[-1][0], _ErrInfo):
            self._break_bodies(self._messages[-1][0].message)

    def _await_head(self) -> None:
        """From the first byte of a head on the client has so long for all of it; for the first one
        from the connection on."""
        if self._head_timer is None:
            self._head_timer = self._loop.call_later(
                self._header_timeout_seconds, self._cut_off_head
            )

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
        self._head_timer = None
        self._has_begun_head = False

    def _cut_off_head(self) -> None:
        """Say why, unless the client has said nothing either."""
        if self._has_begun_head and self.transport is not None:
            self.transport.write(_late_head_answer())
        self._stop_head_timer()
        self.force_close()

    def close_at_once(self) -> None:
        """After the answer, and not wait for the rest of the body first."""
        self._lingering_time = 0.0

    def _break_bodies(self, reason: str) -> None:
        """What came is no HTTP: end the body under way. aiohttp only queues a 400 behind the
        request, whose handler would wait for the rest for ever."""
        bodies = [body for _, body in self._messages]
        if self._current_request is not None:
            bodies.append(self._current_request.content)
        for body in bodies:
            # Never feed_eof: a broken body would pass for a whole one.
            if not body.is_eof():
                body.set_exception(web.RequestPayloadError(reason))
        self._lingering_time = 0.0

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that could not be read, or whose handler failed, and close."""
        if status < 500:
            text = " ".join((message or "it cannot be read").split())
            response = problem_response(BAD_HTTP, text)
        else:
            if isinstance(exc, ConnectionError):
                raise exc  # the client went away in the middle of its answer: no defect
            log.error("request failed", path=request.path, exc_info=exc)
            if request.writer.output_size > 0:
                raise ConnectionError("the answer has begun: only closing tells the client")
            response = problem_response(DEFECT, "it is logged; please report it")
        response.headers.update(OUR_HEADERS)
        response.force_close()
        return response


class HttpServer(web.Server):
    """Makes a Connection of each client that comes.

    Bodies are kept as they are sent: `Content-Encoding` is not undone.
    """

    def __init__(self, handler: RequestHandler, limits: Limits | None = None) -> None:
        # aiohttp asks an answer for nothing that `Answer` has not.
        super().__init__(cast(Any, self._handle))
        self._handler = handler
        self._limits = limits or Limits()
        self._accepted = 0
        self._event_loop = asyncio.get_running_loop()
        self._busy: set[web.RequestHandler] = set()
        self._is_draining = False
        self._may_be_drained = asyncio.Event()

    async def _handle(self, request: web.BaseRequest) -> Response:
        connection = request.protocol
        assert isinstance(connection, Connection)
        if connection.is_refused:
            return self._refuse()
        self._busy.add(connection)
        try:
            response = await self._handler(request)
        finally:
            self._busy.discard(connection)
            self._may_be_drained.set()
        if self._is_draining:
            response.force_close()
        return response

    def _refuse(self) -> web.Response:
        response = error_response(
            StoreUnavailable(
                f"there are {self._limits.max_connections} connections already "
                "(--max-connections); try again later, or keep connections for several requests"
            )
        )
        response.headers.update(OUR_HEADERS)
        response.force_close()
        return response

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        assert isinstance(handler, Connection)
        if 0 < self._limits.max_connections <= self._accepted:
            handler.refuse()
        self._accepted += not handler.is_refused

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        assert isinstance(handler, Connection)
        self._accepted -= not handler.is_refused
        super().connection_lost(handler, exc)
        self._may_be_drained.set()

    async def drain(self, timeout_seconds: float) -> None:
        """Close idle connections at once, and each other one when its request is answered.

        One that has just come is about to send its first request, which nobody can tell it to send
        again; it has FIRST_REQUEST_SECONDS for that. A body that is still being sent is read to its
        end; aiohttp's own way to stop would read no more of it and wait for the rest in vain.
        """
        self._is_draining = True
        await asyncio.sleep(0)  # what was accepted already has its connection by then
        for connection in self.connections:
            if connection not in self._busy and not _is_fresh(connection):
                connection.close()
        await self._wait_until_answered(self._is_anybody_fresh, FIRST_REQUEST_SECONDS)
        await self._wait_until_answered(lambda: bool(self._busy), timeout_seconds)

    def _is_anybody_fresh(self) -> bool:
        return any(_is_fresh(connection) for connection in self.connections)

    async def _wait_until_answered(
        self, is_waited_for: Callable[[], bool], timeout_seconds: float
    ) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while is_waited_for():
                    self._may_be_drained.clear()
                    await self._may_be_drained.wait()

    def __call__(self) -> web.RequestHandler:
        return Connection(
            self,
            loop=self._event_loop,
            limits=self._limits,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=KEEPALIVE_SECONDS,
        )


def _is_fresh(connection: web.RequestHandler) -> bool:
    """Whether not even its first request has come."""
    return connection._request_count == 0
