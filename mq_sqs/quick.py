"""The quick way of the gateway: SendMessage in JSON, answered without a task for each request.

As in `mq.web.quick`, which says more: a parsed request whose body is here goes to the committer at
once and is answered from its callback. Anything unusual about it, and anything but a success, goes
the usual way (`mq_sqs.gateway`), which finds the error again, or is handed it, and words it.
"""

from __future__ import annotations

import asyncio
import uuid
from time import perf_counter
from typing import NamedTuple

from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from multidict import CIMultiDictProxy, istr

from mq.config import SMALL_BODY_BYTES
from mq.errors import MQError
from mq.names import QueueName, is_fifo
from mq.store.lease import Received
from mq.store.publish import Published
from mq.web.browsers import Doors
from mq.web.durations import Durations
from mq.web.quick import is_plain, whole_body
from mq.web.shortcut import ShortConnection
from mq.web.tokens import Scope
from mq_sqs.addresses import queue_of_url
from mq_sqs.calls import Operations
from mq_sqs.canonical import RequestHead
from mq_sqs.faults import SQSError
from mq_sqs.operations.sending import Outgoing, check_message, rules_by, sent
from mq_sqs.protocol import SqsRequest
from mq_sqs.protocol.json import JsonDialect
from mq_sqs.signatures import Signatures

_OPERATION = "SendMessage"
_TARGET = istr("X-Amz-Target")
_SEND = f"AmazonSQS.{_OPERATION}"


class _KnownHead(NamedTuple):
    """What is asked of a request's head here."""

    headers: CIMultiDictProxy[str]
    transport: asyncio.Transport | None


class QuickSending:
    """For the connections of one gateway. Without `signatures` everybody may send."""

    def __init__(
        self,
        operations: Operations,
        signatures: Signatures | None,
        durations: Durations,
        doors: Doors,
    ) -> None:
        self._operations = operations
        self._signatures = signatures
        self._durations = durations
        self._doors = doors
        self._dialect = JsonDialect()

    def take(
        self, connection: ShortConnection, message: RawRequestMessage, payload: StreamReader
    ) -> bool:
        """Begin to answer a request, if this way is for it."""
        headers = message.headers
        if (
            headers.get(_TARGET) != _SEND
            or message.method != "POST"
            or payload.total_bytes > SMALL_BODY_BYTES
            or not is_plain(connection, message, payload)
        ):
            return False
        try:
            self._doors.check(_KnownHead(headers, connection.line))
            found = self._read(message, payload)
            if found is None:
                return False
            queue, outgoing = found
            draft = outgoing.draft()
        except (MQError, SQSError):
            return False
        if draft.length + len(draft.trailer) > SMALL_BODY_BYTES:
            return False
        request = _Sending(self, connection, message, payload, outgoing)
        connection.begin_quick()
        self._operations.store.submit_publish(queue, draft, request.published)
        return True

    def drop(self, received: Received) -> None:
        """Do nothing: no message is received this way."""

    def _read(
        self, message: RawRequestMessage, payload: StreamReader
    ) -> tuple[QueueName, Outgoing] | None:
        """Return what is sent, and where; None if the usual way must find something out first.
        Raises MQError, SQSError."""
        path, _, query = message.path.partition("?")
        if not path.startswith("/") or not message.path.isascii():
            return None
        body = whole_body(payload)
        token = None
        if self._signatures is not None:
            head = RequestHead(message.method, path, query, message.headers)
            token = self._signatures.read(head).verify(body)
        asked = SqsRequest(message.method, path, query, message.headers, body)
        values = self._dialect.read(_OPERATION, asked)
        queue = queue_of_url(values["QueueUrl"])
        if token is not None:
            token.require(Scope.WRITE, queue)
        settings = self._operations.known_settings_of(queue)
        if settings is None or is_fifo(queue):
            return None
        return queue, check_message(values, rules_by(self._operations, queue, settings))

    def answer(self, connection: ShortConnection, sending: _Sending, published: Published) -> None:
        request_id = str(uuid.uuid4())
        result = sent(sending.outgoing, published)
        answer = self._dialect.answer(_OPERATION, result, request_id)
        connection.end_quick(answer)
        seconds = perf_counter() - sending.started
        self._durations.add(_OPERATION, self._dialect.name, answer.status, seconds)


class _Sending:
    """One request on its way."""

    __slots__ = ("_connection", "_message", "_payload", "_way", "outgoing", "started")

    def __init__(
        self,
        way: QuickSending,
        connection: ShortConnection,
        message: RawRequestMessage,
        payload: StreamReader,
        outgoing: Outgoing,
    ) -> None:
        self._way = way
        self._connection = connection
        self._message = message
        self._payload = payload
        self.outgoing = outgoing
        self.started = perf_counter()

    def published(self, result: object, error: BaseException | None) -> None:
        if isinstance(result, Published):
            self._way.answer(self._connection, self, result)
        else:
            self._connection.hand_over(self._message, self._payload, error)
