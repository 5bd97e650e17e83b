"""Connections: aiohttp's low-level server, with its own error pages turned into problem+json."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol, cast

import structlog
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import _ErrInfo

from mq.web.answers import OUR_HEADERS
from mq.web.connections.framing import Framing, are_heavy, blame, is_simple
from mq.web.connections.head_timer import HeadTimer
from mq.web.connections.parsers import new_parser
from mq.web.connections.unread import Unread, unread_bytes
from mq.web.problems import (
    BAD_HTTP,
    DEFECT,
    PROBLEMS,
    REQUEST_TIMEOUT,
    problem_response,
    raw_answer,
)

log = structlog.get_logger(__name__)


class Limits(NamedTuple):
    """What clients may take: connections at once (0 for any number), seconds for a request's head,
    and seconds between two pieces of its body and of the answer."""

    max_connections: int = 0
    header_timeout_seconds: float = 30.0
    body_timeout_seconds: float = 60.0


class Acceptor(Protocol):
    """What a connection asks of the server that accepted it."""

    is_draining: bool
    busy: set[web.RequestHandler]

    def admit(self) -> bool: ...

    def refusal(self) -> bytes: ...


class Connection(web.RequestHandler):
    """One client's connection. `when_lost`, if set, is called when the client has closed the
    connection or its own direction."""

    __slots__ = (
        "_acceptor",
        "_framing",
        "_head_timer",
        "_is_broken",
        "body_timeout_seconds",
        "is_admitted",
        "is_known",
        "own_transport",
        "unread",
        "when_lost",
    )

    def __init__(self, *arguments: Any, limits: Limits, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._acceptor = cast("Acceptor", self._manager)
        self.when_lost: Callable[[], object] | None = None
        self.is_admitted = self.is_known = self._is_broken = False
        self.body_timeout_seconds = limits.body_timeout_seconds
        self._head_timer = HeadTimer(self._loop, limits.header_timeout_seconds)
        self._framing, self.unread = Framing(), Unread()
        # aiohttp forgets its transport when it closes it, even if an answer is still in there.
        self.own_transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast(asyncio.Transport, transport)
        if not self.is_admitted and not self._acceptor.admit():
            # It is closed at once and unheard: to wait for its request would take a descriptor.
            self._manager, self._force_close = None, True
            accepted.write(self._acceptor.refusal())
            accepted.close()
            return
        self.own_transport = accepted
        super().connection_made(transport)
        self._head_timer.start(self._cut_off_head)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self.own_transport is None:
            return  # The connection was never taken.
        super().connection_lost(exc)
        self.own_transport = None
        self._head_timer.stop()
        self._messages.clear()  # They hold the connection, as do the last body and answer.
        self._framing, self.unread = Framing(), Unread()
        if self.when_lost is not None:
            self.when_lost()

    def data_received(self, data: bytes) -> None:
        if self._upgraded:
            self._take_no_more()
        if self._is_broken:
            return
        framing, number, body = self._framing, self._request_count, self._framing.body
        was_plain, position = framing.is_plain, framing.position()
        # aiohttp's task is not woken before `_deliver`.
        waiter, self._waiter = self._waiter, None
        super().data_received(data)
        if body is not None and body.is_eof():
            self._count_out(body)
        self._waiter = waiter
        messages = self._messages
        number = min(self._request_count - number, len(messages))
        framing.note_end(data, position, messages[-1] if number else None, self._is_held_back)
        if number and isinstance((broken := messages[-1][0]), _ErrInfo):
            messages.pop()
            self._refuse(broken.exc, data)
        elif framing.may_have_lost:
            self._count_framing(data, position, number)
            self._take_no_more()
        elif number != 1 or not (was_plain and is_simple(data, cast(Any, messages[-1]))):
            self._count_framing(data, position, number)
        self._deliver(number)
        if self._messages and not self._buffer_paused and are_heavy(self._messages):
            self._pause_reading_for_buffer()
        if self._messages or self._is_answering:
            self._head_timer.stop()
        elif self._framing.is_in_head:
            self._head_timer.begin_head(self._cut_off_head)

    def _count_out(self, body: StreamReader) -> None:
        """Tell the parser again that a request is taken, if aiohttp's task took it before its body
        was whole. The parser counts a request only when it is whole. Told too early, it counted
        this one as waiting, stopped one request too soon, and nothing would make it go on."""
        if any(waiting is body for _, waiting in self._unanswered):
            return
        assert self._parser is not None
        self._parser.message_consumed()
        is_broken = self._messages and isinstance(self._messages[-1][0], _ErrInfo)
        if not is_broken and not self._is_held_back:
            super().data_received(b"")

    def _resume_reading_if_drained(self) -> None:
        """Read on, unless too much still waits. aiohttp asks for this with each request that it
        takes, so also when none waits any more."""
        if not are_heavy(self._messages):
            super()._resume_reading_if_drained()

    @property
    def _is_held_back(self) -> bool:
        """Return whether the parser may have bytes that it has not looked at."""
        return self._reading_paused or self._buffer_paused

    @property
    def _is_answering(self) -> bool:
        return self._current_request is not None

    @property
    def _is_idle(self) -> bool:
        """Whether aiohttp's task waits for a request. It takes a request some turns of the event
        loop before that becomes the current one."""
        waiter = self._waiter
        return waiter is not None and not waiter.done() and not self._is_answering

    @property
    def _unanswered(self) -> Iterable[Any]:
        """Requests that have come and are not being answered yet."""
        return self._messages

    def _deliver(self, number: int) -> None:
        """Let aiohttp answer this many requests, which have just come."""
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if self._messages and waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _count_framing(self, data: bytes, position: int, number: int) -> None:
        framing = self._framing
        is_held_back = self._is_held_back or framing.may_have_lost
        came: Any = [self._messages[-place] for place in range(number, 0, -1)]
        wrong = framing.count(data, position, came, is_held_back)
        taken = 0 if wrong else framing.last_chunks.count_clean(data, came, is_held_back)
        for _ in came[taken:]:
            self._messages.pop()
        if wrong is None:
            if taken < number or framing.last_chunks.may_hide_trailer():
                self._take_no_more()
            elif framing.ends_with_chunks():
                self._parser = new_parser(self)
            return
        # The body is broken even if it is whole by now: its handler cannot have come to its end.
        self._framing.break_body(wrong.message)
        self._refuse(wrong, data)

    def _refuse(self, error: BaseException, data: bytes) -> None:
        """Answer with that error, after the answers to earlier requests."""
        error = blame(error, data)
        text = error.message if isinstance(error, BadHttpMessage) else str(error)
        self.break_off(text)
        self._messages.append((_ErrInfo(HTTPStatus.BAD_REQUEST, error, text), EMPTY_PAYLOAD))

    def break_off(self, reason: str) -> None:
        """Give up a connection after the answer that is due, because what follows cannot be told or
        is not HTTP. Nothing more is looked at. The body under way ends here: its handler would wait
        for the rest for ever."""
        self._is_broken, self._message_tail = True, b""
        body = self._framing.body
        if body is not None and not body.is_eof():
            self._framing.break_body(reason)
        self._lingering_time = 0.0

    def drop_rest(self, reason: str) -> None:
        """Take nothing after the request under way, not even what has come, and keep none of it."""
        self.break_off(reason)
        self._messages.clear()
        self._parser, self._framing = new_parser(self), Framing()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return True to keep the connection after the client has ended its direction. What it has
        sent whole is answered first, except over TLS, where the event loop closes both directions
        at once."""
        if self.when_lost is not None:
            self.when_lost()
        transport = self.own_transport
        if self._is_idle or self._request_count == 0 or transport is None:
            return False
        if transport.get_extra_info("sslcontext"):
            return False
        self._take_no_more("the client closed the connection before its end")
        return True

    def _take_no_more(self, reason: str = "") -> None:
        """Take no request after those that have come whole."""
        self.break_off(reason)
        if not [*self._unanswered]:
            self._close_after_answer()

    def _close_after_answer(self) -> None:
        """Take no request after the one under way."""
        if self._is_idle:
            self.force_close()  # `close` would end aiohttp's task alone.
        else:
            self.close()

    @property
    def is_last(self) -> bool:
        """Whether no request is answered after the one under way."""
        return self._acceptor.is_draining or (self._is_broken and not [*self._unanswered])

    def _cut_off_head(self) -> None:
        """Close, and say why unless the client has sent nothing."""
        if self._head_timer.has_begun and self.transport is not None:
            detail = "the request's head did not arrive in time (--header-timeout)"
            self.transport.write(raw_answer(REQUEST_TIMEOUT, detail))
        self._head_timer.stop()
        self.force_close()

    @property
    def expects_request(self) -> bool:
        """Whether a request is about to be handled: the first one, one whose head has begun to
        come, one that was parsed and whose handler has not run yet, or one in the socket."""
        if self._request_count == 0 or self._head_timer.has_begun or not self._is_idle:
            return True
        return self.own_transport is not None and unread_bytes(self.own_transport) > 0

    def log_exception(self, *arguments: Any, **more: Any) -> None:
        """Log a defect. A body that broke off while aiohttp passed over the rest of it is none."""
        if not isinstance(more.get("exc_info"), web.RequestPayloadError):
            super().log_exception(*arguments, **more)

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
            response = problem_response(PROBLEMS.get(cast(Any, type(exc)), BAD_HTTP), text)
        else:
            if isinstance(exc, ConnectionError):
                raise exc  # The client went away in the middle of its answer. That is not a defect.
            log.error("request failed", path=request.path, exc_info=exc)
            if request.writer.output_size > 0:
                raise ConnectionError("the answer has begun: only closing tells the client")
            response = problem_response(DEFECT, "it is logged; please report it")
        response.headers.update(OUR_HEADERS)
        response.force_close()
        return response
