"""The way from a request over HTTP to an operation of SQS, and from its result to an answer.

Every error leaves in the form that the protocol has for errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from time import perf_counter
from typing import NamedTuple

import structlog
from aiohttp import web

from mq.config import MIB, SMALL_BODY_BYTES
from mq.errors import BodyUnreadable, MQError
from mq.store.background import running
from mq.store.store import Store
from mq.web.answers import Answer, Response
from mq.web.bodies import BodyLimit, read_large_body, read_small_body
from mq.web.connections.presence import send_if_half_closed
from mq.web.connections.quick_connection import (
    QuickConnection,
    raise_handed_over,
    start_of,
)
from mq.web.connections.strangers import end_if_unknown, note_known
from mq.web.downloads import answer_in_pieces
from mq.web.durations import OTHER, Durations
from mq.web.origin_policy import OriginPolicy
from mq.web.parameters import path_and_query
from mq.web.tokens import KnownToken
from mq_sqs.calls import Operations, SqsCall, make_request_id
from mq_sqs.faults import (
    INTERNAL_ERROR,
    INVALID_ACTION,
    MALFORMED_QUERY,
    METHOD_NOT_ALLOWED,
    REQUEST_TOO_LONG,
    SERIALIZATION,
    UNSUPPORTED_OPERATION,
    SQSError,
    translate,
)
from mq_sqs.operations import HANDLERS, REFUSED
from mq_sqs.protocol import Dialect, SqsRequest
from mq_sqs.protocol.json import JsonDialect
from mq_sqs.protocol.query import QueryDialect
from mq_sqs.queues.addresses import Addressing
from mq_sqs.quick import QuickCalls
from mq_sqs.signing.canonical import RequestHead
from mq_sqs.signing.signatures import Signatures

log = structlog.get_logger(__name__)

MAX_REQUEST_BYTES = 8 * MIB
"""The largest body: 1 MiB of text and attributes, where each byte may take several characters."""

_METHODS = ("GET", "POST")
_LIMIT = BodyLimit(MAX_REQUEST_BYTES, "of a request of SQS")
_LARGE = ("CreateQueue", "SendMessage", "SendMessageBatch", "TagQueue")
"""Operations whose bodies may be large: messages, and 50 tags in a form. Few large ones are
answered at once, and a receive may wait long: those of one client would keep everyone else's
out."""


class _Arrival(NamedTuple):
    """A request, and how to answer it."""

    http: web.BaseRequest
    dialect: Dialect
    request_id: str


class Gateway:
    """The handler for `mq.web.connections.http_server.HttpServer`. Without `signatures` anyone may
    do anything."""

    def __init__(
        self,
        store: Store,
        addressing: Addressing,
        *,
        visibility_seconds: float,
        signatures: Signatures | None,
        durations: Durations,
        origins: OriginPolicy,
    ) -> None:
        self._store = store
        self._operations = Operations(store, addressing, visibility_seconds)
        self._signatures = signatures
        self._durations = durations
        self._origins = origins
        self._dialects = (JsonDialect(), QueryDialect())
        self.quick = QuickCalls(self._operations, signatures, durations, origins)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Go on with what an earlier gateway left undone, beside the block."""
        tasks = self._operations.move_tasks
        try:
            async with running(tasks.adopt_all()):
                yield
        finally:
            await tasks.stop()

    async def handle(self, http: web.BaseRequest) -> Response:
        started = start_of(http)
        json, query = self._dialects
        dialect: Dialect = json if json.is_for(http.headers) else query
        request = _Arrival(http, dialect, make_request_id())
        operation = OTHER
        async with AsyncExitStack() as exits:
            try:
                asked, token = await self._meet(http, exits)
                found = dialect.operation_of(asked)
                if found not in HANDLERS and found not in REFUSED:
                    raise SQSError(
                        INVALID_ACTION, f"The action {found[:80]} is not valid for this endpoint."
                    )
                operation = found
                if len(asked.body) > SMALL_BODY_BYTES and operation not in _LARGE:
                    raise SQSError(
                        REQUEST_TOO_LONG,
                        f"the body has more than {SMALL_BODY_BYTES} bytes; only "
                        f"{', '.join(_LARGE)} take more",
                    )
                raise_handed_over(http)
                response = await self._answer(request, asked, operation, token, exits)
            except SQSError as error:
                response = _refuse(request, error)
            except MQError as error:
                response = _refuse(request, translate(error))
                if isinstance(error, BodyUnreadable):
                    response.force_close()
            except ConnectionError:
                raise  # The client went away in the middle of its answer.
            except Exception:
                log.exception("request failed", operation=operation)
                detail = "the gateway has a defect; it is logged, please report it"
                response = _refuse(request, SQSError(INTERNAL_ERROR, detail))
        seconds = perf_counter() - started
        self._durations.add(operation, dialect.name, response.status, seconds)
        return response

    async def _meet(
        self, http: web.BaseRequest, exits: AsyncExitStack
    ) -> tuple[SqsRequest, KnownToken | None]:
        """Do as `_read` does. A client that is not known is refused once on its connection."""
        try:
            asked, token = await self._read(http, exits)
        except (MQError, SQSError):
            if self._signatures is not None:
                end_if_unknown(http)
            raise
        if token is not None:
            note_known(http)
        return asked, token

    async def _read(
        self, http: web.BaseRequest, exits: AsyncExitStack
    ) -> tuple[SqsRequest, KnownToken | None]:
        """Read all of the request, and find out whose it is. One that is larger than a small body
        waits for its turn in memory; nothing is read for a stranger."""
        self._origins.check(http)
        self._origins.check_target(http)
        raw = path_and_query(http)
        if not raw.isascii():
            raise SQSError(MALFORMED_QUERY, "the path must be percent-encoded")
        if http.method not in _METHODS:
            raise SQSError(METHOD_NOT_ALLOWED, "SQS takes POST and GET")
        coding = http.headers.get("Content-Encoding", "identity")
        if coding.lower() != "identity":
            raise SQSError(
                SERIALIZATION, f"header Content-Encoding {coding[:80]!r}: send the body as it is"
            )
        path, _, query = raw.partition("?")
        head = RequestHead(http.method, path, query, http.headers)
        signature = None if self._signatures is None else self._signatures.read(head)
        body = await read_small_body(self._store, http, (), _LIMIT)
        if len(body) > SMALL_BODY_BYTES:
            async with self._store.open_upload() as upload:
                await upload.write(await read_large_body(upload, http, body, _LIMIT))
                await exits.enter_async_context(self._store.batch_slots)
                body = await upload.read_whole(bytes)
        body = bytes(body)
        token = None if signature is None else signature.verify(body)
        return SqsRequest(http.method, path, query, http.headers, body), token

    async def _answer(
        self,
        request: _Arrival,
        asked: SqsRequest,
        operation: str,
        token: KnownToken | None,
        exits: AsyncExitStack,
    ) -> Response:
        values = request.dialect.read(operation, asked)
        if operation in REFUSED:
            raise SQSError(UNSUPPORTED_OPERATION, REFUSED[operation])
        handler = HANDLERS[operation]
        queue = handler.queue_of(values)
        if token is not None:
            token.require(handler.scope, queue)
        connection = request.http.protocol
        assert isinstance(connection, QuickConnection)
        received = connection.take_over(list) or []
        call = SqsCall(values, request.http, _base_of(request.http), token, exits, received)
        try:
            result = await handler.run(self._operations, call, queue)
            answer = request.dialect.answer(operation, result, request.request_id)
            del result  # Its texts are in the answer.
            is_small = answer.length <= SMALL_BODY_BYTES
            return answer if is_small and not call.received else await _hand_out(call, answer)
        except BaseException:
            await asyncio.gather(*map(self._store.put_back, call.received))
            raise


async def _hand_out(call: SqsCall, answer: Answer) -> Response:
    """Return an answer with messages. A large one is written here: its memory counts until its
    client has read it. Raises OSError if the client is gone."""

    async def write() -> Response:
        if answer.length > SMALL_BODY_BYTES and call.share is not None:
            return await answer_in_pieces(call.request, answer, call.share)
        return answer

    return await send_if_half_closed(call.request, write())


def _refuse(request: _Arrival, error: SQSError) -> Answer | web.Response:
    answer = request.dialect.refuse(error, request.request_id)
    method = request.http.method
    if method in _METHODS:
        return answer
    response = (Answer(error.fault.status) if method == "HEAD" else answer).as_response()
    response.headers["Allow"] = ", ".join(_METHODS)
    return response


def _base_of(http: web.BaseRequest) -> str:
    """Return the address by which the client calls the gateway."""
    transport = http.transport
    is_secure = transport is not None and transport.get_extra_info("sslcontext") is not None
    host = http.headers.get("Host")
    if not host:
        name = None if transport is None else transport.get_extra_info("sockname")
        host = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "localhost"
    return f"{'https' if is_secure else 'http'}://{host}"
