"""The quick way of the gateway: the requests that clients send most, in JSON, answered without a
task for each.

As in `mq.web.quick`, which says more: a parsed request whose body is here goes to the committer at
once and is answered from its callback. Anything unusual about it, and anything but a success, goes
the usual way (`mq_sqs.gateway`), which finds the error again, or is handed it, and words it. A head
that came before is not parsed again (`mq_sqs.call_heads`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from multidict import istr

from mq.config import SMALL_BODY_BYTES
from mq.errors import MQError
from mq.names import QueueName, is_fifo
from mq.store.receiving.received_message import Received
from mq.web.connections.quick_connection import Parsed, QuickConnection
from mq.web.connections.whole_requests import is_plain, whole_body
from mq.web.durations import Durations
from mq.web.origin_policy import OriginPolicy
from mq.web.parameters import BareHead
from mq.web.standing_in_line import stand_in_line
from mq.web.tokens import KnownToken, Scope
from mq_sqs.call_heads import CallHead, CallHeads
from mq_sqs.calls import Begun, Operations, make_request_id
from mq_sqs.faults import SQSError
from mq_sqs.operations.receipts import begin_delete, begin_delete_batch
from mq_sqs.operations.receiving import begin_receive
from mq_sqs.operations.sending import TRACE_ID, begin_send, begin_send_batch
from mq_sqs.protocol import SqsRequest, Values
from mq_sqs.protocol.json import TARGET, JsonDialect
from mq_sqs.queues.addresses import queue_of_url
from mq_sqs.signing.canonical import RequestHead
from mq_sqs.signing.signatures import Signatures

_TARGET, _CODING = istr("X-Amz-Target"), istr("Content-Encoding")

_BEGINNINGS: Mapping[str, Callable[[Operations, QueueName, Values], Begun | None]] = {
    "DeleteMessage": begin_delete,
    "DeleteMessageBatch": begin_delete_batch,
    "ReceiveMessage": begin_receive,
}
"""Functions that begin these operations, each of which needs the scope `write`, as does a send. If
one returns None, or raises SQSError or MQError, nothing was done, and the request goes the usual
way."""

_SENDS: Mapping[str, Callable[[Operations, QueueName, Values, str | None], Begun | None]] = {
    "SendMessage": begin_send,
    "SendMessageBatch": begin_send_batch,
}
"""Those of messages, which get the trace of the request too."""

_OPERATIONS = {f"{TARGET}{operation}": operation for operation in (*_SENDS, *_BEGINNINGS)}


class QuickCalls:
    """Serves the connections of one gateway. Without `signatures` anyone may do anything."""

    def __init__(
        self,
        operations: Operations,
        signatures: Signatures | None,
        durations: Durations,
        origins: OriginPolicy,
    ) -> None:
        self._operations = operations
        self._signatures = signatures
        self._durations = durations
        self._origins = origins
        self._dialect = JsonDialect()
        self._heads = CallHeads(lambda headers: origins.admits(BareHead(headers)))

    def take(
        self, connection: QuickConnection, message: RawRequestMessage, payload: StreamReader
    ) -> bool:
        """Begin to answer a request, if this way is for it."""
        head = _read_head(message)
        length = payload.total_bytes
        if head is None or length > SMALL_BODY_BYTES or not is_plain(connection, message, payload):
            return False
        if not self._take(connection, head, whole_body(payload), (message, payload)):
            return False
        connection.is_at_head = self._heads.learn(connection.piece, message, length, head)
        return True

    def take_known(self, connection: QuickConnection, data: bytes) -> bool:
        """Begin to answer bytes that the parser has not seen, if they are one whole request with a
        known head."""
        known = self._heads.find(data)
        transport = connection.own_transport
        if known is None or transport is None or transport.get_write_buffer_size():
            return False
        return self._take(connection, *known, data)

    def refuses(self, message: RawRequestMessage) -> bool:
        """Whether a request needs a signature and has none of a known key."""
        if self._signatures is None:
            return False
        path, _, query = message.path.partition("?")
        try:
            self._signatures.read(RequestHead(message.method, path, query, message.headers))
        except SQSError:
            return True
        return False

    def drop(self, received: list[Received]) -> None:
        """Give back messages that were handed over and not taken."""
        self._operations.store.give_back(received)

    def _take(
        self, connection: QuickConnection, head: CallHead, body: bytes, source: Parsed | bytes
    ) -> bool:
        """Begin to answer a request. `source` is what was parsed, or the bytes of a request that
        the parser has not seen."""
        started = perf_counter()
        try:
            if not head.is_ours:
                self._origins.check(BareHead(head.headers, connection.own_transport))
            begun = self._begin(head, body)
        except (MQError, SQSError):
            return False
        if begun is None:
            return False
        connection.is_known = True

        def end(result: Any, error: BaseException | None) -> None:
            try:
                if error is not None:
                    raise error
                must_be_there = begun.receives and result and _has_left(connection)
                told = None if must_be_there else begun.tell(result)
                answer = None
                if told is not None:
                    answer = self._dialect.answer(head.operation, told, make_request_id())
                if answer is None or (begun.receives and answer.length > SMALL_BODY_BYTES):
                    connection.hand_over(source, result, started)
                    return
                connection.end_quick(answer)
            except BaseException as refused:
                if begun.receives and result:
                    self.drop(result)
                connection.hand_over(source, refused, started)
                return
            seconds = perf_counter() - started
            self._durations.add(head.operation, self._dialect.name, answer.status, seconds)

        connection.begin_quick()
        if begun.waits is None:
            begun.submit(end)
        else:
            stand_in_line(connection, self._operations.store, begun.waits, end)
        return True

    def _begin(self, head: CallHead, body: bytes) -> Begun | None:
        """Return what is asked for, or None if the usual way must find something out first. Raises
        MQError, SQSError."""
        operation, path, query, headers, *_ = head
        token = None
        if self._signatures is not None:
            token = _verify(self._signatures, head, body)
        values = self._dialect.read(operation, SqsRequest("POST", path, query, headers, body))
        queue = queue_of_url(values["QueueUrl"])
        if token is not None:
            token.require(Scope.WRITE, queue)
        if is_fifo(queue) and not self._operations.fifo.has_read(queue):
            return None
        send = _SENDS.get(operation)
        if send is not None:
            return send(self._operations, queue, values, head.value_of(TRACE_ID))
        return _BEGINNINGS[operation](self._operations, queue, values)


def _has_left(connection: QuickConnection) -> bool:
    """Return whether the client seems to have left before its answer."""
    transport = connection.own_transport
    return transport is None or transport.is_closing() or connection.has_closed(transport)


def _verify(signatures: Signatures, head: CallHead, body: bytes) -> KnownToken:
    """Return the token that a request is signed with. Raises SQSError."""
    last, own_values = head.last_signed, head.own_values
    token = None if last is None else last.verify(signatures, own_values, body)
    if token is None:
        request = RequestHead("POST", head.path, head.query, head.own_headers())
        signature = signatures.read(request)
        token = signature.verify(body)
        if last is not None:
            last.keep(head.own_names, own_values, signature)
    return token


def _read_head(message: RawRequestMessage) -> CallHead | None:
    """Return what a head asks for, or None if it is for the usual way."""
    headers = message.headers
    targets = headers.getall(_TARGET, ())
    operation = _OPERATIONS.get(targets[0]) if len(targets) == 1 else None
    path, _, query = message.path.partition("?")
    is_usual = message.method == "POST" and path.startswith("/") and message.path.isascii()
    if operation is None or _CODING in headers or not is_usual:
        return None
    return CallHead(operation, path, query, headers)
