"""The quick way of the gateway: the requests that clients send most, in JSON, answered without a
task for each.

As in `mq.web.quick`, which says more: a parsed request whose body is here goes to the committer at
once and is answered from its callback. Anything unusual about it, and anything but a success, goes
the usual way (`mq_sqs.gateway`), which finds the error again, or is handed it, and words it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import NamedTuple

from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from multidict import istr

from mq.commit.operation import Done
from mq.config import SMALL_BODY_BYTES
from mq.errors import MQError
from mq.names import QueueName
from mq.store.lease import Received
from mq.web.browsers import Doors
from mq.web.durations import Durations
from mq.web.parameters import BareHead
from mq.web.quick import is_plain, whole_body
from mq.web.shortcut import ShortConnection
from mq.web.tokens import Scope
from mq_sqs.addresses import queue_of_url
from mq_sqs.calls import Begun, Operations, make_request_id
from mq_sqs.canonical import RequestHead
from mq_sqs.faults import SQSError
from mq_sqs.operations.receipts import begin_delete, begin_delete_batch
from mq_sqs.operations.sending import begin_send
from mq_sqs.packing import is_plain_json
from mq_sqs.protocol import SqsRequest, Values
from mq_sqs.protocol.json import TARGET, JsonDialect
from mq_sqs.signatures import Signatures

_TARGET, _CODING = istr("X-Amz-Target"), istr("Content-Encoding")

_BEGINNINGS: Mapping[str, Callable[[Operations, QueueName, Values, bytes], Begun | None]] = {
    "DeleteMessage": lambda operations, queue, values, _: begin_delete(operations, queue, values),
    "DeleteMessageBatch": lambda operations, queue, values, _: begin_delete_batch(
        operations, queue, values
    ),
    "SendMessage": lambda operations, queue, values, body: begin_send(
        operations, queue, values, is_plain_json(body)
    ),
}
"""What begins these operations, given the body too. Each of them needs the scope `write`. None is
for the usual way, as is SQSError or MQError; then nothing was done."""

_OPERATIONS = {f"{TARGET}{operation}": operation for operation in _BEGINNINGS}


class _Asked(NamedTuple):
    """What a request asks for, and when it came."""

    operation: str
    begun: Begun
    started: float


class QuickCalls:
    """For the connections of one gateway. Without `signatures` everybody may do everything."""

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
        started = perf_counter()
        headers = message.headers
        targets = headers.getall(_TARGET, ())
        operation = _OPERATIONS.get(targets[0]) if len(targets) == 1 else None
        if (
            operation is None
            or _CODING in headers
            or message.method != "POST"
            or payload.total_bytes > SMALL_BODY_BYTES
            or not is_plain(connection, message, payload)
        ):
            return False
        try:
            self._doors.check(BareHead(headers, connection.line))
            begun = self._begin(operation, message, payload)
        except (MQError, SQSError):
            return False
        if begun is None:
            return False
        end = self._ender(connection, message, payload, _Asked(operation, begun, started))
        connection.begin_quick()
        begun.submit(end)
        return True

    def take_known(self, connection: ShortConnection, data: bytes) -> bool:
        """Return False: the heads of signed requests differ each time."""
        return False

    def drop(self, received: Received) -> None:
        """Do nothing: no message is received this way."""

    def _begin(
        self, operation: str, message: RawRequestMessage, payload: StreamReader
    ) -> Begun | None:
        """Return what is asked for, or None if the usual way must find something out first. Raises
        MQError, SQSError."""
        path, _, query = message.path.partition("?")
        if not path.startswith("/") or not message.path.isascii():
            return None
        body = whole_body(payload)
        token = None
        if self._signatures is not None:
            head = RequestHead(message.method, path, query, message.headers)
            token = self._signatures.read(head).verify(body)
        asked = SqsRequest(message.method, path, query, message.headers, body)
        values = self._dialect.read(operation, asked)
        queue = queue_of_url(values["QueueUrl"])
        if token is not None:
            token.require(Scope.WRITE, queue)
        return _BEGINNINGS[operation](self._operations, queue, values, body)

    def _ender(
        self,
        connection: ShortConnection,
        message: RawRequestMessage,
        payload: StreamReader,
        asked: _Asked,
    ) -> Done:
        def end(result: object, error: BaseException | None) -> None:
            answer = None
            try:
                told = asked.begun.tell(result if error is None else error)
                if told is not None:
                    answer = self._dialect.answer(asked.operation, told, make_request_id())
                    connection.end_quick(answer)
            except Exception as defect:
                connection.hand_over(message, payload, defect)
                return
            if answer is None:
                connection.hand_over(message, payload, error)
                return
            seconds = perf_counter() - asked.started
            self._durations.add(asked.operation, self._dialect.name, answer.status, seconds)

        return end
