"""The way over HTTP: the six endpoints, by the blocking client of `mq.client`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, TypeVar

from mq.client import by_id, moves, operations, publishing
from mq.client.answers import counts_in, document_in, unexpected
from mq.client.blocking.exchange import Exchange
from mq.client.blocking.session import Session
from mq.client.errors import ClientError, NoAnswer
from mq.client.retries import ask
from mq.client.settings import settings_in
from mq.client.wire import Operation, Request, json_in, query
from mq.config import CHUNK_BYTES, MAX_ANSWER_MESSAGES, MAX_MOVES, SMALL_BODY_BYTES
from mq.ctl.ways.access import NO_CHANGES, Passed, QueueCounts, QueueMove, Readable, ShownMessage
from mq.ctl.ways.answers import header_of, message_in, message_of, passed_in
from mq.ctl.ways.connect import ClientCredentials, admin_url, failure_of, open_session
from mq.ctl.ways.same_root import require_same_root
from mq.errors import CommandFailed, InvalidName
from mq.lifecycle import PurgeScope, State
from mq.lines.ndjson import MEDIA_TYPE, Line
from mq.names import MessageId, QueueName, parse_message_id

T = TypeVar("T")


class HttpAccess:
    """The queues of the server at `url`; `mq.ctl.ways.access.Access` says what the methods do."""

    def __init__(self, url: str, credentials: ClientCredentials, admin: str | None = None) -> None:
        """Open the way to the server at `url`. `admin` is the address of its admin listener, as
        HOST:PORT; the default is the usual port of the same host, if a server on the same root
        listens there."""
        self._url = url.rstrip("/")
        self._credentials = credentials
        self._admin = admin
        self._has_compared_roots = False
        self._session = open_session(self._url, credentials)
        self._message_under_way: Exchange | None = None

    def close(self) -> None:
        self._close_message()
        self._session.close()

    def _close_message(self) -> None:
        """Forget the answer before this one. Nothing more of it will be read."""
        if self._message_under_way is not None:
            self._message_under_way.close()

    def list_queues(self) -> list[QueueCounts]:
        with self._admin_listener() as (url, session):
            answer = session.run(ask(session.context, Request("GET", "/queues")))
            try:
                documents = json_in(answer.body)
                queues = [_counts_in(document, document) for document in documents]
            except (ValueError, TypeError):
                raise unexpected("lists no queues") from None
        if self._admin is None and not self._has_compared_roots:
            with self._failures():
                require_same_root(self._session, self._url, answer, url)
            self._has_compared_roots = True
        return queues

    def passed(self) -> dict[str, Passed]:
        with self._admin_listener() as (_, session):
            answer = session.run(ask(session.context, Request("GET", "/metrics")))
            return passed_in(answer.body.decode(errors="replace"))

    @contextmanager
    def _admin_listener(self) -> Iterator[tuple[str, Session]]:
        """Yield where the admin listener is, and a session with it."""
        url = admin_url(self._url, self._admin, self._credentials.cacert).rstrip("/")
        with closing(open_session(url, self._credentials)) as session:
            try:
                yield url, session
            except ClientError as error:
                raise failure_of(error, url, "--admin") from error

    def describe_queue(self, queue: QueueName) -> QueueCounts:
        with self._failures():
            answer = self._session.run(ask(self._session.context, Request("GET", f"/{queue}")))
            return _counts_in(document_in(answer.body), settings_in(answer))

    def create_queue(self, queue: QueueName, changes: Mapping[str, str] = NO_CHANGES) -> bool:
        return self._run(operations.create_queue(self._session.context, queue, changes))

    def settings(self, queue: QueueName) -> dict[str, Any]:
        return self._run(operations.read_settings(self._session.context, queue))

    def change_settings(self, queue: QueueName, changes: Mapping[str, str]) -> None:
        self.settings(queue)  # PUT would make the queue.
        self.create_queue(queue, changes)

    def delete_queue(self, queue: QueueName) -> None:
        self._run(operations.delete_queue(self._session.context, queue))

    def purge(self, queue: QueueName, scope: PurgeScope) -> int:
        return self._run(operations.purge(self._session.context, queue, scope.value))

    def publish(
        self, queue: QueueName, body: Readable, model: Line, also: Sequence[QueueName] = ()
    ) -> MessageId:
        first = body.read(SMALL_BODY_BYTES + 1)
        given = {"Content-Type": model.content_type, "X-Message-Id": model.message_id}
        headers = {name: value for name, value in given.items() if value is not None}
        headers |= model.properties
        target = publishing.publish_target([queue, *also], query(delay=model.delay_seconds))
        is_small = len(first) <= SMALL_BODY_BYTES
        request = Request(
            "POST", target, first if is_small else b"", headers,
            is_repeatable=model.message_id is not None,
        )  # fmt: skip
        with self._opened(request, None if is_small else _chunks(first, body)) as exchange:
            return MessageId(header_of(exchange.whole(), "X-Message-Id"))

    def publish_batch(
        self, queue: QueueName, lines: bytes, also: Sequence[QueueName] = ()
    ) -> list[tuple[QueueName, MessageId]]:
        answers = self._begin_batch([queue, *also], lines)()
        return [(QueueName(each.get("queue", queue)), each["id"]) for each in answers]

    def begin_batch(self, queue: QueueName, lines: Sequence[Line]) -> Callable[[], list[MessageId]]:
        from mq.lines.transfer import exported

        end = self._begin_batch([queue], b"".join(map(exported, lines)))
        return lambda: [each["id"] for each in end()]

    def _begin_batch(
        self, queues: Sequence[QueueName], lines: bytes
    ) -> Callable[[], list[dict[str, Any]]]:
        target = publishing.publish_target(queues, "?batch")
        headers = {"Content-Type": MEDIA_TYPE}
        with self._failures():
            request = Request("POST", target, lines, headers, is_repeatable=False)
            exchange = self._session.begin(request)
        return partial(self._end_batch, exchange)

    def _end_batch(self, exchange: Exchange) -> list[dict[str, Any]]:
        with self._failures(), exchange:
            exchange.accepted()
            answers = [document_in(each) for each in exchange.whole().body.splitlines()]
            try:
                return [each | {"id": parse_message_id(each["id"])} for each in answers]
            except (InvalidName, LookupError, TypeError):
                raise unexpected("has no ids") from None

    def receive(
        self,
        queue: QueueName,
        visibility_seconds: float | None,
        wait_seconds: float = 0.0,
        then: Sequence[QueueName] = (),
    ) -> ShownMessage | None:
        target = operations.receive_target([queue, *then], None, wait_seconds, visibility_seconds)
        return self._message(Request("GET", target, wait_seconds=wait_seconds))

    def touch(
        self, queue: QueueName, message_id: MessageId, seconds: float, lease: int | None
    ) -> str:
        tag = _tag(lease) or by_id.ANY_LEASE
        with self._failures():
            prolonging = by_id.prolong(self._session.context, queue, message_id, seconds, tag)
            return header_of(self._session.run(prolonging), "X-Visible-At")

    def release(self, queue: QueueName, message_id: MessageId, lease: int | None) -> None:
        self._run(by_id.release_now(self._session.context, queue, message_id, _tag(lease)))

    def move(self, move: QueueMove, limit: int) -> tuple[int, list[str]]:
        source, target, reason, *_ = move
        most = min(limit, MAX_MOVES)
        return self._run(moves.move(self._session.context, target, source, most, reason))

    def move_by_id(self, move: QueueMove, message_id: MessageId) -> None:
        source, target, reason, lease, died_in = move
        context, tag = self._session.context, _tag(lease)
        with self._failures():
            moving = moves.move_many(
                context, target, source, [message_id], reason, lease=tag, died_in=died_in
            )
            for error in self._session.run(moving).values():
                raise error

    def remove(self, queue: QueueName, message_id: MessageId, lease: int | None) -> None:
        self._run(by_id.remove(self._session.context, queue, message_id, _tag(lease)))

    def peek(
        self, queue: QueueName, limit: int, state: State = State.READY
    ) -> Iterator[ShownMessage]:
        of_state = "" if state is State.READY else f"&state={state}"
        shown, behind = 0, ""
        while shown < limit:
            most, shown_before = min(limit - shown, MAX_ANSWER_MESSAGES), shown
            request = Request("GET", f"/{queue}/messages?peek&max={most}{behind}{of_state}")
            try:
                with self._opened(request) as exchange:
                    for message in map(message_in, exchange.lines()):
                        yield message
                        shown, behind = shown + 1, f"&after={message.message_id}"
            except CommandFailed as error:
                # A server gives up on a client whose own reader is slow, as a person at a pager.
                if shown == shown_before or not _is_cut_off(error):
                    raise
            if shown == shown_before:
                break

    def peek_behind(self, queue: QueueName, after: MessageId, limit: int) -> Sequence[ShownMessage]:
        request = Request("GET", f"/{queue}/messages?peek&max={limit}&after={after}")
        with self._opened(request) as exchange:
            return [message_in(line) for line in exchange.lines()]

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def peek_at(self, queue: QueueName, message_id: MessageId) -> ShownMessage:
        message = self._message(Request("GET", f"/{queue}/messages?peek&id={message_id}"))
        if message is None:
            raise failure_of(unexpected("has no message"), self._url, "--url")
        return message

    def _message(self, request: Request) -> ShownMessage | None:
        """Return the message of an answer. Its body must be read before the next request."""
        self._close_message()
        with self._failures():
            exchange = self._message_under_way = self._session.begin(request)
            return None if exchange.accepted().status == 204 else message_of(exchange)

    def _run(self, operation: Operation[T]) -> T:
        with self._failures():
            return self._session.run(operation)

    @contextmanager
    def _opened(
        self, request: Request, chunks: Iterator[bytes] | None = None
    ) -> Iterator[Exchange]:
        """Send a request and yield its answer, which is a success and still to be read."""
        with self._failures(), self._session.begin(request, chunks) as exchange:
            exchange.accepted()
            yield exchange

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn errors of the client into CommandFailed."""
        try:
            yield
        except ClientError as error:
            raise failure_of(error, self._url, "--url") from error


def _counts_in(document: Mapping[str, Any], settings: Mapping[str, Any]) -> QueueCounts:
    """Return the counts in a document. Raises UnexpectedAnswer."""
    return QueueCounts(*counts_in(document), settings.get("paused") is True)


def _is_cut_off(error: CommandFailed) -> bool:
    return isinstance(error.__cause__, NoAnswer) and error.__cause__.is_cut_off


def _chunks(first: bytes, rest: Readable) -> Iterator[bytes]:
    chunk = first
    while chunk:
        yield chunk
        chunk = rest.read(CHUNK_BYTES)


def _tag(lease: int | None) -> str | None:
    return None if lease is None else f"{lease:016x}"
