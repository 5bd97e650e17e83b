"""The quick way: the requests that clients send most, answered without a task for each.

It begins behind aiohttp's parser, so one parser reads every byte. A parsed publish, receive or
remove, of one message or several, whose body is here, becomes neither a `web.Request` nor a
coroutine: it goes to the committer at once and is answered from its callback. Anything unusual
about it, and anything but a success, goes the usual way (`mq.web.api`), which finds the error
again, or is handed it, and words it.
`mq.web.taken_request` is what becomes of a request that is taken.

A head that came before is not parsed again (`mq.web.connections.known_heads`).
"""

from __future__ import annotations

import re

from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from multidict import istr

from mq.config import MAX_DELAY_SECONDS, SMALL_BODY_BYTES, SMALL_TEXT_BYTES
from mq.errors import MQError
from mq.names import QueueName, parse_message_id, parse_queue_name
from mq.spool.message.trailer import pack_trailer
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from mq.times import in_ns
from mq.web.api import make_api
from mq.web.connections.connection import Limits
from mq.web.connections.http_server import HttpServer
from mq.web.connections.known_heads import KnownHeads, QuickHead
from mq.web.connections.quick_connection import Parsed, QuickConnection
from mq.web.connections.whole_requests import is_plain, whole_body
from mq.web.durations import Durations
from mq.web.endpoints.batches import check_headers
from mq.web.endpoints.publishing import ALSO, BATCH, DELAY, REMOVES
from mq.web.endpoints.receiving import QUEUES, THEN, read_by_id, read_receiving
from mq.web.endpoints.removing import read_ids
from mq.web.origin_policy import OriginPolicy
from mq.web.parameters import (
    BareHead,
    Target,
    read_content_type,
    read_flag,
    read_leases,
    read_own_id,
    read_parameters,
    read_queues,
    read_removes,
    read_seconds,
)
from mq.web.properties import read_properties
from mq.web.taken_request import TakenRequest
from mq.web.tokens import Scope, Tokens

_PATH = re.compile(r"/([^/?%]+)/messages(?:/([^/?%]+)|\?([^?%+]+))?")
_IF_MATCH = istr("If-Match")
_LISTS = frozenset({ALSO})
_PUBLISHING = frozenset({ALSO, BATCH, DELAY, REMOVES})
_RECEIVING = frozenset({"wait", "visibility", "max", "id", THEN})


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
            if head is None:
                return False
            request = self._request(connection, head, (message, payload))
            self._admit(request)
        except MQError:
            return False
        request.begin(whole_body(payload))
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
        request = self._request(connection, head, data)
        if not head.is_ours or self._tokens is not None:
            try:
                self._admit(request)
            except MQError:
                return False
        request.begin(body)
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
            return self._read_publish(queue, message, payload.total_bytes, query)
        if payload is not EMPTY_PAYLOAD:
            return None
        if method == "GET" and message_id is None:
            return self._read_receive(queue, message, query)
        if method == "DELETE" and message_id is not None:
            several = read_ids(message_id) if "," in message_id else ()
            one = None if several else parse_message_id(message_id)
            leases = read_leases(BareHead(headers))
            return QuickHead(method, queue, headers, message_id=one, leases=leases, several=several)
        return None

    def _read_publish(
        self, queue: QueueName, message: RawRequestMessage, length: int, query: str
    ) -> QuickHead | None:
        """Do what `_read_head` does, for a publish with a body of that length."""
        parameters = read_parameters(query, _PUBLISHING, _LISTS)
        also = read_queues(parameters, ALSO, queue) or ()
        asked = BareHead(message.headers)
        delay_ns = in_ns(read_seconds(parameters, DELAY, MAX_DELAY_SECONDS))
        # Whether a token is for its queue too is asked with each request.
        removes = read_removes(asked, Target(queue, "", parameters, QueueName), REMOVES)
        head = QuickHead(message.method, queue, message.headers, length, also=also)
        if read_flag(parameters, BATCH):
            check_headers(asked)
            is_for_this_way = length <= SMALL_TEXT_BYTES and delay_ns is None and removes is None
            return head._replace(is_batch=True) if is_for_this_way else None
        own_id = read_own_id(asked)
        if length > min(SMALL_BODY_BYTES, self._store.max_body_bytes):
            return None
        content_type, properties = read_content_type(asked), read_properties(asked)
        trailer = pack_trailer(properties) if properties else b""
        head = head._replace(content_type=content_type, trailer=trailer, message_id=own_id)
        return head._replace(delay_ns=delay_ns, removes=removes)

    def _read_receive(
        self, queue: QueueName, message: RawRequestMessage, query: str
    ) -> QuickHead | None:
        """Do what `_read_head` does, for a receive."""
        head = QuickHead(message.method, queue, message.headers)
        parameters = read_parameters(query, _RECEIVING, QUEUES)
        if "id" in parameters:
            message_id, visibility, guard = read_by_id(BareHead(message.headers), parameters)
            head = head._replace(message_id=message_id, visibility_ns=in_ns(visibility))
            return head._replace(guard=guard)
        limit, wait, visibility = read_receiving(parameters)
        then = read_queues(parameters, THEN, queue)
        head = head._replace(limit=limit, wait_seconds=wait, visibility_ns=in_ns(visibility))
        return None if _IF_MATCH in message.headers else head._replace(then=then)

    def _request(
        self, connection: QuickConnection, head: QuickHead, source: Parsed | bytes
    ) -> TakenRequest:
        return TakenRequest(self._store, self.durations, connection, head, source)

    def _admit(self, request: TakenRequest) -> None:
        """Raise MQError for a request that may not be answered."""
        self._origins.check(request)
        if self._tokens is not None:
            token = self._tokens.authenticate(request)
            request.connection.is_known = True
            for queue in (request.head.queue, *request.head.more_queues):
                token.require(Scope.WRITE, queue)
