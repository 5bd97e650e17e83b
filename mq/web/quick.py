"""The quick way: the three requests that clients send most, answered without a task for each.

It begins behind aiohttp's parser, so one parser reads every byte. A parsed publish, receive or
remove whose body is here becomes neither a `web.Request` nor a coroutine: it goes to the committer
at once and is answered from its callback. Anything unusual about it, and anything but a success,
goes the usual way (`mq.web.api`), which finds the error again, or is handed it, and words it.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from time import perf_counter

from aiohttp import HttpVersion11
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from multidict import istr

from mq.config import DEFAULT_ALLOWED_HOSTS, SMALL_BODY_BYTES
from mq.errors import MQError
from mq.names import QueueName, parse_message_id, parse_queue_name
from mq.spool.trailer import pack_trailer
from mq.store.lease import Received
from mq.store.publish import Draft, Published
from mq.store.store import Store
from mq.web.answers import Answer
from mq.web.api import make_api
from mq.web.browsers import Doors
from mq.web.connection import Limits
from mq.web.downloads import answer_small_body
from mq.web.durations import Durations
from mq.web.http_server import HttpServer
from mq.web.parameters import read_content_type, read_leases
from mq.web.properties import read_properties
from mq.web.publishing import answer_published
from mq.web.receiving import headers_of
from mq.web.shortcut import ShortConnection
from mq.web.tokens import Scope, Tokens

_PATH = re.compile(r"/([^/?%]+)/messages(?:/([^/?%,]+))?")
_MESSAGES, _MESSAGE = "/{queue}/messages", "/{queue}/messages/{id}"
_EXPECT = istr("Expect")
_OWN_ID = istr("X-Message-Id")


def make_http(
    store: Store,
    limits: Limits | None = None,
    tokens: Tokens | None = None,
    durations: Durations | None = None,
    doors: Doors | None = None,
) -> HttpServer:
    """Return the API of a store, with both ways to its answers. Without `tokens` everybody may do
    everything; `durations` takes how long each request took; `doors` knows the server's names."""
    durations = durations or Durations()
    doors = doors or Doors(DEFAULT_ALLOWED_HOSTS)
    usual = make_api(store, tokens, durations, doors)
    return HttpServer(usual, limits, QuickWay(store, tokens, durations, doors))


class QuickWay:
    """For the connections of one server. Without `tokens` everybody may do everything."""

    def __init__(
        self, store: Store, tokens: Tokens | None, durations: Durations, doors: Doors
    ) -> None:
        self._store = store
        self._tokens = tokens
        self._durations = durations
        self._doors = doors

    def take(
        self, connection: ShortConnection, message: RawRequestMessage, payload: StreamReader
    ) -> bool:
        """Begin to answer a request, if this way is for it."""
        found = _PATH.fullmatch(message.path)
        if found is None or not is_plain(connection, message, payload):
            return False
        try:
            request = _Request(self, connection, message, payload, parse_queue_name(found[1]))
            self._admit(request)
            return self._begin(request, found[2])
        except MQError:
            return False

    def drop(self, received: Received) -> None:
        """Discard what was handed over and not taken."""
        self._store.give_back(received)

    def _admit(self, request: _Request) -> None:
        """Raise MQError for a request that may not be answered."""
        self._doors.check(request)
        if self._tokens is not None:
            self._tokens.authenticate(request).require(Scope.WRITE, request.queue)

    def _begin(self, request: _Request, message_id: str | None) -> bool:
        """Do what the request asks for. Returns False, or raises MQError, if the request is for the
        usual way; then nothing was done."""
        store, method = self._store, request.message.method
        if method == "POST" and message_id is None:
            draft = self._read_draft(request)
            if draft is None:
                return False
            request.begin()
            store.submit_publish(request.queue, draft, request.published)
        elif request.payload is not EMPTY_PAYLOAD:
            return False
        elif method == "GET" and message_id is None:
            request.begin()
            store.submit_receive(request.queue, request.received)
        elif method == "DELETE" and message_id is not None:
            checked, leases = parse_message_id(message_id), read_leases(request)
            request.begin()
            store.submit_remove(request.queue, checked, leases, request.removed)
        else:
            return False
        return True

    def _read_draft(self, request: _Request) -> Draft | None:
        """Return the message to publish, or None if it is for the usual way. Raises MQError."""
        longest = min(SMALL_BODY_BYTES, self._store.max_body_bytes)
        if _OWN_ID in request.headers or request.payload.total_bytes > longest:
            return None
        content_type, properties = read_content_type(request), read_properties(request)
        body = whole_body(request.payload)
        draft = Draft(len(body), zlib.crc32(body), content_type, body)
        if properties:
            draft.trailer = pack_trailer(properties)
        return draft


class _Request:
    """One request on its way."""

    __slots__ = ("_connection", "_started", "_way", "headers", "message", "payload", "queue")

    def __init__(
        self,
        way: QuickWay,
        connection: ShortConnection,
        message: RawRequestMessage,
        payload: StreamReader,
        queue: QueueName,
    ) -> None:
        self._started = perf_counter()
        self._way = way
        self._connection = connection
        self.message = message
        self.headers = message.headers
        self.payload = payload
        self.queue = queue

    @property
    def transport(self) -> asyncio.Transport | None:
        return self._connection.line

    def begin(self) -> None:
        """From here on it is answered by this way, or handed over."""
        self._connection.begin_quick()

    def published(self, result: object, error: BaseException | None) -> None:
        if isinstance(result, Published):
            self._answer(answer_published(self.queue, result), _MESSAGES)
        else:
            self._hand_over(error)

    def removed(self, result: object, error: BaseException | None) -> None:
        if result is None and error is None:
            self._answer(Answer(202), _MESSAGE)
        else:
            self._hand_over(error)

    def received(self, result: object, error: BaseException | None) -> None:
        line = self._connection.line
        if isinstance(result, Received):
            if line is None or line.is_closing():
                self._way.drop(result)
                self._connection.end_quick(None)
            elif result.body is None or self._connection.has_closed(line):
                self._hand_over(result)
            else:
                self._answer_with(result, result.body)
        elif result is None and error is None:
            self._answer(Answer(204), _MESSAGES)
        else:
            self._hand_over(error)

    def _answer_with(self, received: Received, body: bytes) -> None:
        try:
            self._answer(answer_small_body(body, headers_of(received)), _MESSAGES)
        except ValueError as error:
            # A header that cannot be sent: the usual way logs it, and answers 500.
            self._way.drop(received)
            self._hand_over(error)

    def _answer(self, answer: Answer, route: str) -> None:
        self._connection.end_quick(answer)
        seconds = perf_counter() - self._started
        self._way._durations.add(route, self.message.method, answer.status, seconds)

    def _hand_over(self, outcome: BaseException | Received | None) -> None:
        self._connection.hand_over(self.message, self.payload, outcome)


def is_plain(connection: ShortConnection, message: RawRequestMessage, body: StreamReader) -> bool:
    """Return whether nothing about the connection or the framing is unusual, and all of the request
    is here. A client that has not read the last answer goes the usual way."""
    line = connection.line
    return (
        message.version == HttpVersion11
        and not (message.should_close or message.upgrade or message.chunked)
        and _EXPECT not in message.headers
        and body.is_eof()
        and body.exception() is None
        and line is not None
        and not line.get_write_buffer_size()
    )


def whole_body(body: StreamReader) -> bytes:
    """Return all of a body, which stays there for the usual way."""
    if body is EMPTY_PAYLOAD:
        return b""
    pieces = body._buffer
    return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)
