"""A connection on which some requests are answered in aiohttp's place, in their turn.

While one of them is under way, aiohttp's task has nothing to do: requests that come meanwhile are
parsed, and wait their turn.
"""

from __future__ import annotations

import asyncio
import select
from collections import deque
from collections.abc import Iterable
from itertools import chain
from time import perf_counter
from typing import Any, Protocol, TypeVar

from aiohttp import web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import _ErrInfo

from mq.web.answers import Answer
from mq.web.connections.connection import Connection
from mq.web.connections.framing import are_heavy
from mq.web.connections.lingering import linger, until_taken
from mq.web.connections.parsers import new_parser
from mq.web.connections.strangers import Doorkeeper, keep_only_refused
from mq.web.connections.unread import is_taken_slowly, poll_for_end, unread_bytes

T = TypeVar("T")
Parsed = tuple[RawRequestMessage, StreamReader]


class QuickHandler(Doorkeeper, Protocol):
    """Something that may answer a parsed request."""

    def take(
        self, connection: QuickConnection, message: RawRequestMessage, payload: StreamReader
    ) -> bool: ...

    def take_known(self, connection: QuickConnection, data: bytes) -> bool: ...

    def drop(self, received: Any) -> None: ...


class QuickConnection(Connection):
    """A connection. Without a `quick_handler` every request goes the usual way.

    `is_at_head` says that the parser has read all that came and is about to read a head; `piece` is
    what it is reading.
    """

    __slots__ = (
        "_behind",
        "_end",
        "_handed_over",
        "_is_free",
        "_is_lingering",
        "_is_quick",
        "_quick_handler",
        "is_at_head",
        "piece",
        "started",
    )

    def __init__(
        self, *arguments: Any, quick_handler: QuickHandler | None, **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        self._quick_handler = quick_handler
        self._is_quick = self._is_lingering = False
        self._is_free = True
        self._behind: deque[Any] = deque()
        self._handed_over: object = None
        self.started: float | None = None
        self._end: select.poll | None = None
        self.is_at_head = quick_handler is not None
        self.piece = b""

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._behind.clear()
        self.drop_handed_over()

    def data_received(self, data: bytes) -> None:
        if self.is_at_head and self._is_taken_unparsed(data):
            if self._head_timer.is_running:
                self._head_timer.stop()
            return
        self.is_at_head, self.piece = False, data
        super().data_received(data)
        self.piece = b""
        if not self.is_known:
            keep_only_refused(self, self._quick_handler)

    def _is_taken_unparsed(self, data: bytes) -> bool:
        """Whether the quick way answers this without the parser. While a request is under way, the
        parser reads what comes."""
        if self._quick_handler is None or self._is_quick or not self._is_free or self._is_broken:
            return False
        return not (self._close or self._force_close) and self._quick_handler.take_known(self, data)

    def _parse(self, data: bytes) -> Parsed:
        """Return what a parser of its own reads in a whole request."""
        messages, _, _ = new_parser(self).feed_data(data)
        return messages[0]

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Finish a request of the usual way. aiohttp's task may begin to wait for the next request
        only after that has come."""
        response, is_reset = await super().finish_response(request, resp, start_time)
        stays = bool(response.keep_alive) and not is_reset and request.content.is_eof()
        self._is_free = stays and not self._messages
        if stays:
            self._await_next()
        elif not (is_reset or response.keep_alive):
            await self._linger()
        return response, is_reset

    async def _linger(self) -> None:
        """Wait until the client has its answer, which is the last one. If bytes may still come they
        are read; once the client's end is read there are none."""
        await until_taken(self.own_transport)
        transport = self.own_transport
        if transport is None or not self._is_broken or self._acceptor.is_draining:
            return
        if self.has_closed(transport) and not unread_bytes(transport):
            return
        self._is_lingering = True
        end = asyncio.Event()
        self.when_lost = end.set
        await linger(transport, end)

    @property
    def expects_request(self) -> bool:
        return self._is_open and not self._is_lingering and super().expects_request

    @property
    def _is_open(self) -> bool:
        """Whether there is still a client to answer. aiohttp's task must not be woken once the
        transport is closing: it would find its request handler gone."""
        transport = self.own_transport
        return transport is not None and not (transport.is_closing() or self._force_close)

    @property
    def _is_full(self) -> bool:
        """Whether the parser has delivered as many requests as it does, including the one under
        way."""
        behind = len(self._messages) + len(self._behind)
        return self._is_quick and behind + 1 >= self._max_msg_queue_size

    @property
    def _is_held_back(self) -> bool:
        return super()._is_held_back or self._is_full

    @property
    def _is_answering(self) -> bool:
        return self._is_quick or self._current_request is not None

    @property
    def _unanswered(self) -> Iterable[Any]:
        return chain(self._messages, self._behind)

    def _deliver(self, number: int) -> None:
        if self._is_quick:
            # aiohttp's task must not find these requests before their turn.
            self._behind.extend(self._messages)
            self._messages.clear()
            if not self._buffer_paused and (self._is_full or are_heavy(self._behind)):
                # aiohttp's task reads on when it has these requests.
                self._pause_reading_for_buffer()
        elif number != 1 or not self._is_taken():
            self._wake()

    def _wake(self) -> None:
        if self._messages:
            self._is_free = False
        super()._wake()

    def _is_taken(self) -> bool:
        if self._quick_handler is None or not self._is_free or len(self._messages) != 1:
            return False
        message, payload = self._messages[0]
        quick = self._quick_handler
        return not isinstance(message, _ErrInfo) and quick.take(self, message, payload)

    def begin_quick(self) -> None:
        """Note that the request that has come will be answered by `end_quick`, or given to aiohttp
        by `hand_over`."""
        self._is_quick = True
        if self._messages:
            self._messages.popleft()
        else:
            self._request_count += 1  # The parser has not seen it.
        self._acceptor.busy.add(self)

    def end_quick(self, answer: Answer | None) -> None:
        """Write the answer if the client is still there. Raises ValueError if it cannot be written;
        the request is then still under way."""
        is_last = self.is_last
        data = b"" if answer is None else answer.to_bytes(is_last)
        self._is_quick = False
        self._acceptor.busy.discard(self)
        transport = self.own_transport
        if transport is None or transport.is_closing() or self._force_close:
            return
        if data:
            transport.write(data)
            self.unread.wrote(len(data))
        assert self._parser is not None
        self._parser.message_consumed()
        if is_last:
            self.force_close()  # What was written goes out first.
            return
        self._keepalive = True
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(
                self._next_keepalive_close_time, self._process_keepalive
            )
        if self._behind:
            self._go_on()
        else:
            self._await_next()

    def _await_next(self) -> None:
        """Give the client its time for a head that has begun to come while this request was under
        way. It began when that was answered: until then the client may have waited for it."""
        if self._framing.has_next and not self._messages:
            self._head_timer.begin_head(self._cut_off_head)

    def _go_on(self) -> None:
        """Let the requests that came meanwhile go the usual way."""
        self._messages.extend(self._behind)
        self._behind.clear()
        self._wake()

    def has_closed(self, transport: asyncio.Transport) -> bool:
        """Return what `unread.has_closed` returns, in a third of the time. `transport` is that of
        this connection, and open."""
        if self._end is None:
            self._end = poll_for_end(transport)
        return self._end is not None and bool(self._end.poll(0))

    def hand_over(self, source: Parsed | bytes, outcome: object, started: float) -> None:
        """Let aiohttp answer the request after all, from the outcome of the quick way. `source` is
        what was parsed, or the bytes of a request that this connection's parser has not seen;
        `started` is when it came, by `perf_counter`."""
        parsed = self._parse(source) if isinstance(source, bytes) else source
        self._is_quick = False
        self._handed_over, self.started = outcome, started
        if not self._is_open:
            self.drop_handed_over()
            self._acceptor.busy.discard(self)
            return
        self._messages.append(parsed)
        self._go_on()

    def take_over(self, kind: type[T]) -> T | None:
        """Return the outcome of the quick way if it is of that kind, or else None."""
        outcome = self._handed_over
        if not isinstance(outcome, kind):
            return None
        self._handed_over = None
        return outcome

    def drop_handed_over(self) -> None:
        """Drop what was handed over: the request ended before it was asked for."""
        outcome, self._handed_over, self.started = self._handed_over, None, None
        if outcome is not None and not isinstance(outcome, BaseException):
            assert self._quick_handler is not None
            self._quick_handler.drop(outcome)

    def _close_after_answer(self) -> None:
        if not self._is_quick:
            super()._close_after_answer()

    def _process_keepalive(self) -> None:
        if self._is_quick or is_taken_slowly(self.own_transport):
            self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        super()._process_keepalive()


def raise_handed_over(request: web.BaseRequest) -> None:
    """Raise the error in which the quick way ended, so that the usual way words it."""
    connection = request.protocol
    assert isinstance(connection, QuickConnection)
    error = connection.take_over(BaseException)
    if error is not None:
        raise error


def start_of(request: web.BaseRequest) -> float:
    """Return when a request came, by `perf_counter`: to the quick way, if that handed it over."""
    connection = request.protocol
    assert isinstance(connection, QuickConnection)
    started, connection.started = connection.started, None
    return perf_counter() if started is None else started
