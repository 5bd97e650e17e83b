"""The quick way: the three requests that clients send most, answered without a task for each.

It begins behind aiohttp's parser, so one parser reads every byte. A parsed publish, receive or
remove whose body is here becomes neither a `web.Request` nor a coroutine: it goes to the committer
at once and is answered from its callback. Anything unusual about it, and anything but a success,
goes the usual way (`mq.web.api`), which finds the error again, or is handed it, and words it. A
receive that must wait goes there too: those that wait are served in the order in which they came.

A head that came before is not parsed again (`mq.web.connections.known_heads`).
"""

from __future__ import annotations

import asyncio
import re
import zlib
from time import perf_counter

from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from multidict import istr

from mq.config import SMALL_BODY_BYTES
from mq.errors import MQError
from mq.names import parse_message_id, parse_queue_name
from mq.spool.message.trailer import pack_trailer
from mq.store.publishing.publish import Draft, Published
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from mq.times import in_ns
from mq.web.answers import Answer
from mq.web.api import make_api
from mq.web.connections.connection import Limits
from mq.web.connections.http_server import HttpServer
from mq.web.connections.known_heads import KnownHeads, QuickHead
from mq.web.connections.quick_connection import Parsed, QuickConnection
from mq.web.connections.whole_requests import is_plain, whole_body
from mq.web.durations import Durations
from mq.web.endpoints.publishing import ALSO, answer_published
from mq.web.endpoints.receiving import answer_at_once, read_receiving
from mq.web.endpoints.removing import answer_removed, read_ids
from mq.web.origin_policy import OriginPolicy
from mq.web.parameters import (
    BareHead,
    read_content_type,
    read_leases,
    read_parameters,
    read_queues,
)
from mq.web.properties import read_properties
from mq.web.routes import MESSAGE_PATH, MESSAGES_PATH
from mq.web.tokens import Scope, Tokens

_PATH = re.compile(r"/([^/?%]+)/messages(?:/([^/?%]+)|\?([^?%+]+))?")
_IF_MATCH = istr("If-Match")
_ALSO = frozenset({ALSO})
_RECEIVING = frozenset({"wait", "visibility", "max"})
_OWN_ID = istr("X-Message-Id")


def make_http(
    store: Store,
    limits: Limits,
    tokens: Tokens | None,
    durations: Durations,
    origins: OriginPolicy,
) -> HttpServer:
    """Return the API of a store, with the quick and the usual way to its answers. Without `tokens`
    anyone may do anything; `durations` records how long each request took; `origins` knows the
    server's names."""
    usual = make_api(store, tokens, durations, origins)
    return HttpServer(usual, limits, QuickWay(store, tokens, durations, origins))


class QuickWay:
    """Serves the connections of one server. Without `tokens` anyone may do anything."""

    def __init__(
        self, store: Store, tokens: Tokens | None, durations: Durations, origins: OriginPolicy
    ) -> None:
        self._store = store
        self._tokens = tokens
        self.durations = durations
        self._origins = origins
        self._heads = KnownHeads(lambda headers: origins.admits(BareHead(headers)))

    def take(
        self, connection: QuickConnection, message: RawRequestMessage, payload: StreamReader
    ) -> bool:
        """Begin to answer a request, if this way is for it."""
        found = _PATH.fullmatch(message.path)
        if found is None or not is_plain(connection, message, payload):
            return False
        try:
            head = self._read_head(message, payload, found)
            if head is None or self._must_wait(head):
                return False
            request = _Request(self, connection, head, (message, payload))
            self._admit(request)
        except MQError:
            return False
        self._begin(request, whole_body(payload))
        connection.is_at_head = self._heads.learn(connection.piece, message, head)
        return True

    def take_known(self, connection: QuickConnection, data: bytes) -> bool:
        """Begin to answer bytes that the parser has not seen, if they are one whole request with a
        known head."""
        transport = connection.own_transport
        known = self._heads.find(data)
        if known is None or transport is None or transport.get_write_buffer_size():
            return False
        head, body = known
        if self._must_wait(head):
            return False
        request = _Request(self, connection, head, data)
        if not head.is_ours or self._tokens is not None:
            try:
                self._admit(request)
            except MQError:
                return False
        self._begin(request, body)
        return True

    def refuses(self, message: RawRequestMessage) -> bool:
        """Whether a request needs a token and shows none that is known."""
        if self._tokens is None:
            return False
        try:
            self._tokens.authenticate(BareHead(message.headers))
        except MQError:
            return True
        return False

    def drop(self, received: list[Received]) -> None:
        """Give back messages that were handed over and not taken."""
        self._store.give_back(received)

    def _read_head(
        self, message: RawRequestMessage, payload: StreamReader, found: re.Match[str]
    ) -> QuickHead | None:
        """Return what a head asks for, or None if it is for the usual way. Raises MQError."""
        queue, message_id, query = parse_queue_name(found[1]), found[2], found[3] or ""
        method, headers = message.method, message.headers
        if method == "POST" and message_id is None:
            also = read_queues(read_parameters(query, _ALSO, _ALSO), ALSO, queue) or ()
            longest = min(SMALL_BODY_BYTES, self._store.max_body_bytes)
            if _OWN_ID in headers or payload.total_bytes > longest:
                return None
            asked = BareHead(headers)
            content_type, properties = read_content_type(asked), read_properties(asked)
            trailer = pack_trailer(properties) if properties else b""
            head = QuickHead(method, queue, headers, payload.total_bytes, content_type, trailer)
            return head._replace(also=also) if also else head
        if payload is not EMPTY_PAYLOAD:
            return None
        if method == "GET" and message_id is None:
            limit, wait, visibility = read_receiving(read_parameters(query, _RECEIVING))
            head = QuickHead(method, queue, headers, limit=limit, may_wait=wait > 0)
            head = head._replace(visibility_ns=in_ns(visibility))
            return None if _IF_MATCH in headers else head
        if method == "DELETE" and message_id is not None:
            several = read_ids(message_id) if "," in message_id else ()
            one = None if several else parse_message_id(message_id)
            leases = read_leases(BareHead(headers))
            return QuickHead(method, queue, headers, message_id=one, leases=leases, several=several)
        return None

    def _must_wait(self, head: QuickHead) -> bool:
        """Return whether this is a receive that may wait, and no message is known for it."""
        return head.may_wait and self._store.count_spare(head.queue) <= 0

    def _admit(self, request: _Request) -> None:
        """Raise MQError for a request that may not be answered."""
        self._origins.check(request)
        if self._tokens is not None:
            token = self._tokens.authenticate(request)
            request.connection.is_known = True
            for queue in (request.head.queue, *request.head.also):
                token.require(Scope.WRITE, queue)

    def _begin(self, request: _Request, body: bytes) -> None:
        """Do what the request asks for. From here on this way answers it, or hands it over."""
        store, head = self._store, request.head
        request.connection.begin_quick()
        if head.method == "POST":
            draft = Draft(len(body), zlib.crc32(body), head.content_type, body)
            if head.trailer:
                draft.trailer = head.trailer
            store.submit_publish(head.queue, draft, request.published, head.also)
        elif head.method == "GET":
            asked = head.limit or 1, head.visibility_ns
            store.submit_receive(head.queue, request.received, *asked, may_wait=head.may_wait)
        elif head.message_id is None:
            store.submit_remove_many(head.queue, head.several, head.leases, request.removed_many)
        else:
            store.submit_remove(head.queue, head.message_id, head.leases, request.removed)


class _Request:
    """One request on its way. `source` is the parsed request, or the bytes of one that the parser
    has not seen."""

    __slots__ = ("_source", "_started", "_way", "connection", "head", "headers")

    def __init__(
        self,
        way: QuickWay,
        connection: QuickConnection,
        head: QuickHead,
        source: Parsed | bytes,
    ) -> None:
        self._started = perf_counter()
        self._way = way
        self._source = source
        self.connection = connection
        self.head = head
        self.headers = head.headers

    @property
    def transport(self) -> asyncio.Transport | None:
        return self.connection.own_transport

    def published(self, result: object, error: BaseException | None) -> None:
        if isinstance(result, Published):
            self._answer(answer_published(self.head.queue, result), MESSAGES_PATH)
        else:
            self._hand_over(error)

    def removed(self, result: object, error: BaseException | None) -> None:
        if result is None and error is None:
            self._answer(Answer(202), MESSAGE_PATH)
        else:
            self._hand_over(error)

    def removed_many(self, result: object, error: BaseException | None) -> None:
        if isinstance(result, list):
            self._answer(answer_removed(self.head.several, result), MESSAGE_PATH)
        else:
            self._hand_over(error)

    def received(self, result: object, error: BaseException | None) -> None:
        transport = self.connection.own_transport
        if isinstance(result, list) and result:
            if transport is None or transport.is_closing():
                self._way.drop(result)
                self.connection.end_quick(None)
            else:
                self._answer_with(result, transport)
        elif error is None and not self.head.may_wait:
            self._answer(Answer(204), MESSAGES_PATH)
        else:
            self._hand_over(error)

    def _answer_with(self, received: list[Received], transport: asyncio.Transport) -> None:
        """Answer, unless the client must be there until it has taken most of the bodies, or seems
        to have left already."""
        try:
            answer = answer_at_once(received, self.head.limit, transport)
            if answer is None or self.connection.has_closed(transport):
                self._hand_over(received)
            else:
                self._answer(answer, MESSAGES_PATH)
        except ValueError as error:
            # A header that cannot be sent: the usual way logs it, and answers 500.
            self._way.drop(received)
            self._hand_over(error)

    def _answer(self, answer: Answer, route: str) -> None:
        self.connection.end_quick(answer)
        seconds = perf_counter() - self._started
        self._way.durations.add(route, self.head.method, answer.status, seconds)

    def _hand_over(self, outcome: BaseException | list[Received] | None) -> None:
        self.connection.hand_over(self._source, outcome, self._started)
