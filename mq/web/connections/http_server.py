"""The connections of one listener: how many there are, how long answers may wait, and how all of
them end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from aiohttp import HttpVersion10, HttpVersion11, StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage

from mq.config import MAX_HEAD_BYTES, MAX_REQUEST_LINE_BYTES
from mq.errors import InvalidRequest, StoreUnavailable
from mq.web.answers import OUR_HEADERS, HttpHandler, Response
from mq.web.connections.connection import Connection, Limits
from mq.web.connections.framing import MAX_HEADERS, body_may_not_come, refuse_framing
from mq.web.connections.parsers import bound_waiting
from mq.web.connections.quick_connection import QuickConnection, QuickHandler
from mq.web.connections.unread import handed_over_bytes, has_closed, is_taken_slowly
from mq.web.problems import BAD_HTTP, PROBLEMS, error_response, problem_response, raw_answer

FIRST_REQUEST_SECONDS = 1.0
"""How long a stopping server waits for a request that is about to arrive."""

DRAIN_LOOK_SECONDS = 0.02
"""How often a stopping server looks for what it still waits for."""

UNREAD_LOOK_SECONDS = 5.0
"""How often the server looks for answers that are not read."""

KEEPALIVE_SECONDS = 75.0
"""How long an idle connection stays open."""

_VERSIONS = (HttpVersion11, HttpVersion10)


class HttpServer(web.Server):
    """Makes a Connection for each client.

    Bodies are kept as they are sent: `Content-Encoding` is not undone.
    """

    def __init__(
        self,
        handler: HttpHandler,
        limits: Limits | None = None,
        quick_handler: QuickHandler | None = None,
    ) -> None:
        # aiohttp asks an answer for nothing that `Answer` lacks.
        super().__init__(cast(Any, self._handle))
        self._handler = handler
        self._limits = limits or Limits()
        self._accepted = 0
        self._event_loop = asyncio.get_running_loop()
        self.busy: set[web.RequestHandler] = set()
        """The connections with a request under way. None is closed before that is answered."""
        self.handshakes: dict[asyncio.Task[None], None] = {}
        """TLS handshakes that are under way, the oldest first. Each counts as a connection."""
        self.quick_handler = quick_handler
        self.is_draining = False

    def _make_request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        """Make a request of what was parsed. aiohttp would decode the host of a target that has
        one, and an error in that ends the task of the connection without an answer. Nobody here
        asks for that host, except `OriginPolicy`, by the text that came."""
        if message.url.absolute:
            message = message._replace(url=message.url.relative())
        return super()._make_request(message, payload, protocol, writer, task)

    async def _handle(self, request: web.BaseRequest) -> Response:
        connection = request.protocol
        assert isinstance(connection, QuickConnection)
        connection.unread.begin(request.writer)
        if request._message.version not in _VERSIONS:
            connection.break_off("the version of HTTP is another one")
            return _last(_refuse_version(request))
        try:
            refuse_framing(request)
        except InvalidRequest as error:
            connection.break_off(str(error))
            return _last(error_response(error))
        self.busy.add(connection)
        try:
            response = await self._handler(request)
        finally:
            connection.drop_handed_over()
            self.busy.discard(connection)
        # What a client sends after CONNECT is not for this server.
        is_last = connection.is_last or request.method == "CONNECT"
        if is_last or body_may_not_come(request):
            response.force_close()
        return response

    @property
    def clients(self) -> list[Connection]:
        """The connections that are open, the oldest first."""
        return cast(list[Connection], self.connections)

    # Accepting

    def __call__(self) -> QuickConnection:
        connection = QuickConnection(
            self,
            loop=self._event_loop,
            limits=self._limits,
            quick_handler=self.quick_handler,
            # A line for each request costs more than the request: that is a proxy's business.
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=KEEPALIVE_SECONDS,
            max_line_size=MAX_REQUEST_LINE_BYTES,
            max_headers=MAX_HEADERS,
            max_field_size=MAX_HEAD_BYTES,
        )
        bound_waiting(connection)
        return connection

    def admitted(self) -> Connection:
        """Return a connection that `admit` has counted already."""
        connection = self()
        connection.is_admitted = True
        return connection

    def admit(self) -> bool:
        """Count one more connection, until `leave`. Returns False if there are too many."""
        if 0 < self._limits.max_connections <= self._accepted and not self.make_room():
            return False
        self._accepted += 1
        return True

    def make_room(self) -> bool:
        """End a connection for a new one. Returns False if none may be ended."""
        return False

    def leave(self) -> None:
        self._accepted -= 1

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        super().connection_lost(handler, exc)
        self.busy.discard(handler)
        self.leave()

    def refusal(self) -> bytes:
        """Return the answer to one connection too many."""
        error = StoreUnavailable(
            f"there are {self._limits.max_connections} connections already "
            "(--max-connections); try again later, or keep connections for several requests"
        )
        retry = {"Retry-After": str(error.retry_after_seconds)}
        return raw_answer(PROBLEMS[StoreUnavailable], str(error), retry)

    # Clients that do not read

    async def cut_off_unread_forever(self) -> None:
        """Abort the connections of clients that do not read their answers. While a connection is
        not read, because enough waits there, the event loop does not see that its client has gone;
        so a receive that waits for it is told here."""
        seconds = self._limits.body_timeout_seconds
        while True:
            await asyncio.sleep(min(UNREAD_LOOK_SECONDS, seconds / 4))
            now = self._event_loop.time()
            for connection in self.clients:
                transport = connection.own_transport
                if transport is None:
                    continue
                if connection.unread.is_stuck(transport, now, seconds):
                    transport.abort()
                elif connection.when_lost and not transport.is_reading() and has_closed(transport):
                    connection.when_lost()

    # The end

    async def drain(self, timeout_seconds: float) -> None:
        """Close idle connections at once, and each other one when its client has its answer.

        A new connection is about to send its first request, and its client cannot be told to send
        it again. So it has FIRST_REQUEST_SECONDS for that, as has one whose next request has begun
        to come or lies in its socket. A body that is still being sent is read to its end; aiohttp's
        own way to stop would read no more of it, and wait for the rest in vain.
        """
        self.is_draining = True
        await asyncio.sleep(0)  # Connections that were accepted already exist after this.
        for connection in self.clients:
            if connection not in self.busy and not connection.expects_request:
                # `close` would end aiohttp's task alone, and a request that the client then sends
                # would not be answered.
                connection.force_close()
        await self._wait_while(self._is_anybody_expected, FIRST_REQUEST_SECONDS)
        await self._wait_while(self._is_anybody_answered, timeout_seconds)

    def _is_anybody_expected(self) -> bool:
        return any(each not in self.busy and each.expects_request for each in self.clients)

    def _is_anybody_answered(self) -> bool:
        """Whether a request is under way, or an answer that would end with this process."""
        return bool(self.busy) or any(is_taken_slowly(each.own_transport) for each in self.clients)

    def _handed_over_bytes(self) -> int:
        return sum(handed_over_bytes(each.own_transport) for each in self.clients)

    async def _wait_while(self, is_waited_for: Callable[[], bool], timeout_seconds: float) -> None:
        end = self._event_loop.time() + timeout_seconds
        while self._event_loop.time() < end:
            if not is_waited_for():
                handed_over = self._handed_over_bytes()
                await asyncio.sleep(0)
                if not is_waited_for() and self._handed_over_bytes() == handed_over:
                    return
            await asyncio.sleep(DRAIN_LOOK_SECONDS)


def _refuse_version(request: web.BaseRequest) -> web.Response:
    """Answer a request of another version of HTTP, which the parser accepts, in HTTP/1.1."""
    major, minor = request._message.version
    request._version = HttpVersion11
    return problem_response(BAD_HTTP, f"HTTP/{major}.{minor} is not supported; send HTTP/1.1")


def _last(response: web.Response) -> web.Response:
    """Add MQ's headers, and close the connection after the answer."""
    response.headers.update(OUR_HEADERS)
    response.force_close()
    return response
