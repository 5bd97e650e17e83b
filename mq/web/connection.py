"""Connections: aiohttp's low-level server, with its own error pages turned into problem+json."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import structlog
from aiohttp import web
from aiohttp.web_protocol import _ErrInfo

from mq.config import KEEPALIVE_SECONDS
from mq.web.problems import BAD_HTTP, DEFECT, problem_response

log = structlog.get_logger(__name__)

_GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR | select.POLLNVAL

T = TypeVar("T")

RequestHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Connection(web.RequestHandler):
    """One client's connection. `when_lost` is called when it ends, if somebody wants to know."""

    __slots__ = ("when_lost",)

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.when_lost: Callable[[], object] | None = None

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self.when_lost is not None:
            self.when_lost()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._messages and isinstance(self._messages[-1][0], _ErrInfo):
            self._break_bodies(self._messages[-1][0].message)

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
        response.headers["Cache-Control"] = "no-store"
        response.headers["Server"] = "mq"
        response.force_close()
        return response


class HttpServer(web.Server):
    """Makes a Connection of each client that comes.

    Bodies are kept as they are sent: `Content-Encoding` is not undone.
    """

    def __init__(self, handler: RequestHandler) -> None:
        super().__init__(self._handle)
        self._handler = handler
        self._event_loop = asyncio.get_running_loop()
        self._busy: set[web.RequestHandler] = set()
        self._is_draining = False
        self._is_drained = asyncio.Event()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._busy.add(request.protocol)
        try:
            response = await self._handler(request)
        finally:
            self._busy.discard(request.protocol)
            if self._is_draining and not self._busy:
                self._is_drained.set()
        if self._is_draining:
            response.force_close()
        return response

    async def drain(self, timeout_seconds: float) -> None:
        """Close idle connections at once, and each other one when its request is answered.

        A body that is still being sent is read to its end; aiohttp's own way to stop would read
        no more of it and wait for the rest in vain.
        """
        self._is_draining = True
        for connection in self.connections:
            if connection not in self._busy:
                connection.close()
        if self._busy:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    await self._is_drained.wait()

    def __call__(self) -> web.RequestHandler:
        return Connection(
            self,
            loop=self._event_loop,
            auto_decompress=False,
            keepalive_timeout=KEEPALIVE_SECONDS,
        )


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
