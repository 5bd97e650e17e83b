"""Which requests go the quick way, and their beginning."""

from __future__ import annotations

import re

from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from mq.errors import MQError
from mq.names import parse_queue_name
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from mq.web.api import make_api
from mq.web.connections.connection import Limits
from mq.web.connections.http_server import HttpServer
from mq.web.connections.quick_connection import Parsed, QuickConnection
from mq.web.connections.whole_requests import is_plain, whole_body
from mq.web.durations import Durations
from mq.web.origin_policy import OriginPolicy
from mq.web.parameters import BareHead
from mq.web.quick.known_heads import KnownHeads
from mq.web.quick.publishing import read_publish
from mq.web.quick.receiving import read_receive
from mq.web.quick.removing import read_removal
from mq.web.quick.taken_request import AskedFor, QuickHead, TakenRequest
from mq.web.tokens import Scope, Tokens

_PATH = re.compile(r"/([^/?%]+)/messages(?:/([^/?%]+)|\?([^?%+]+))?")


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
        method, head, length = message.method, BareHead(message.headers), payload.total_bytes
        asked: AskedFor | None = None
        if method == "POST" and message_id is None:
            asked = read_publish(self._store, head, queue, query, length)
        elif payload is not EMPTY_PAYLOAD:
            return None
        elif method == "GET" and message_id is None:
            asked = read_receive(head, queue, query)
        elif method == "DELETE" and message_id is not None:
            asked = read_removal(head, message_id)
        return None if asked is None else QuickHead(method, queue, head.headers, asked, length)

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
            for queue in (request.head.queue, *request.head.asked.more_queues):
                token.require(Scope.WRITE, queue)
