"""A request on the quick way, from what its head asks for to its answer."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from functools import partial
from time import perf_counter

from mq.errors import MQError
from mq.names import MessageId, QueueName
from mq.store.by_id import release, take
from mq.store.publishing.publish import Draft, Entry, Published
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from mq.web.answers import Answer
from mq.web.connections.known_heads import QuickHead
from mq.web.connections.quick_connection import Parsed, QuickConnection
from mq.web.durations import Durations
from mq.web.endpoints.batch_lines import parse_batch
from mq.web.endpoints.batches import answer_batch
from mq.web.endpoints.publishing import answer_published
from mq.web.endpoints.receiving import answer_at_once
from mq.web.endpoints.removing import answer_removed
from mq.web.routes import MESSAGE_PATH, MESSAGES_PATH
from mq.web.standing_in_line import Wait, stand_in_line


class TakenRequest:
    """One request on its way. `source` is the parsed request, or the bytes of one that the parser
    has not seen; `durations` records how long it took."""

    __slots__ = ("_durations", "_source", "_started", "_store", "connection", "head", "headers")

    def __init__(
        self,
        store: Store,
        durations: Durations,
        connection: QuickConnection,
        head: QuickHead,
        source: Parsed | bytes,
    ) -> None:
        self._started = perf_counter()
        self._store = store
        self._durations = durations
        self._source = source
        self.connection = connection
        self.head = head
        self.headers = head.headers

    @property
    def transport(self) -> asyncio.Transport | None:
        return self.connection.own_transport

    def _published(self, result: object, error: BaseException | None) -> None:
        if isinstance(result, Published):
            self._answer(answer_published(self.head.queue, result), MESSAGES_PATH)
        else:
            self._hand_over(error)

    def _published_batch(
        self, entries: list[Entry], result: object, error: BaseException | None
    ) -> None:
        if isinstance(result, list):
            self._answer(answer_batch(entries, result), MESSAGES_PATH)
        else:
            self._hand_over(error)

    def _done(
        self, answer: Answer, route: str, result: object, error: BaseException | None
    ) -> None:
        if result is None and error is None:
            self._answer(answer, route)
        else:
            self._hand_over(error)

    def _removed_many(self, result: object, error: BaseException | None) -> None:
        if isinstance(result, list):
            self._answer(answer_removed(self.head.several, result), MESSAGE_PATH)
        else:
            self._hand_over(error)

    def begin(self, body: bytes) -> None:
        """Do what is asked for. From here on the quick way answers this request, or hands it
        over."""
        store, head = self._store, self.head
        self.connection.begin_quick()
        if head.is_batch:
            self._publish_batch(body)
        elif head.method == "POST":
            draft = Draft(len(body), zlib.crc32(body), head.content_type, body)
            if head.message_id is not None:
                draft.message_id = head.message_id
            if head.trailer:
                draft.trailer = head.trailer
            if head.delay_ns is not None:
                draft.delay_ns = head.delay_ns
            store.submit_publish(head.queue, draft, self._published, head.also, head.removes)
        elif head.method == "GET" and head.message_id is not None:
            self._receive_by_id(head.message_id)
        elif head.method == "GET":
            self._receive()
        elif head.message_id is None:
            store.submit_remove_many(head.queue, head.several, head.leases, self._removed_many)
        else:
            done = partial(self._done, Answer(202), MESSAGE_PATH)
            store.submit_remove(head.queue, head.message_id, head.leases, done)

    def _publish_batch(self, body: bytes) -> None:
        """Publish a batch, unless something is wrong with it, or it names queues of its own, which
        a token may forbid."""
        store, head = self._store, self.head
        try:
            entries = parse_batch(body, store.max_body_bytes, 1 + len(head.also))
        except MQError:
            entries = []
        if not entries or any(each.queue for each in entries):
            self._hand_over(None)
        else:
            done = partial(self._published_batch, entries)
            store.submit_batch(head.queue, entries, done, head.also)

    def _receive_by_id(self, message_id: MessageId) -> None:
        """Take that message, prolong its lease or release it."""
        head, asked = self.head, (self.head.queue, message_id)
        hidden_ns, guard = head.visibility_ns, head.guard
        if hidden_ns == 0:
            done = partial(self._done, Answer(204), MESSAGES_PATH)
            self._store.submit(lambda work: release(work, *asked, guard), done)
        else:
            self._store.submit(lambda work: take(work, *asked, hidden_ns, guard), self._taken)

    def _taken(self, result: Received | None, error: BaseException | None) -> None:
        self._received(None if result is None else [result], error)

    def _receive(self) -> None:
        """Receive with others of the round if a message is there, or else in line."""
        store, head = self._store, self.head
        queues = (head.queue, *head.then) if head.then else (head.queue,)
        if head.wait_seconds and all(store.count_spare(each) <= 0 for each in queues):
            self._wait(queues)
        else:
            self._try(queues, 0)

    def _try(self, queues: Sequence[QueueName], number: int) -> None:
        head = self.head
        tried, asked = partial(self._tried, queues, number), (head.limit or 1, head.visibility_ns)
        may_wait = head.wait_seconds > 0
        self._store.submit_receive(queues[number], tried, *asked, may_wait=may_wait)

    def _tried(
        self,
        queues: Sequence[QueueName],
        number: int,
        result: list[Received] | None,
        error: BaseException | None,
    ) -> None:
        if error is not None or result:
            self._received(result, error)
        elif number + 1 < len(queues):
            self._try(queues, number + 1)
        elif self.head.wait_seconds:
            self._wait(queues)  # Another one was faster.
        else:
            self._received(result, error)

    def _wait(self, queues: Sequence[QueueName]) -> None:
        head = self.head
        wait = Wait(queues, head.limit or 1, head.visibility_ns, head.wait_seconds)
        stand_in_line(self.connection, self._store, wait, self._received)

    def _received(self, result: list[Received] | None, error: BaseException | None) -> None:
        transport = self.connection.own_transport
        if error is not None:
            self._hand_over(error)
        elif transport is None or transport.is_closing():
            self._store.give_back(result or ())
            self.connection.end_quick(None)
        elif result:
            self._answer_with(result, transport)
        else:
            self._answer(Answer(204), MESSAGES_PATH)

    def _answer_with(self, received: list[Received], transport: asyncio.Transport) -> None:
        """Answer, unless the client must be there until it has taken most of the bodies, or seems
        to have left already."""
        try:
            names_queue = self.head.then is not None
            answer = answer_at_once(received, self.head.limit, transport, names_queue=names_queue)
            if answer is None or self.connection.has_closed(transport):
                self._hand_over(received)
            else:
                self._answer(answer, MESSAGES_PATH)
        except ValueError as error:
            # A header that cannot be sent: the usual way logs it, and answers 500.
            self._store.give_back(received)
            self._hand_over(error)

    def _answer(self, answer: Answer, route: str) -> None:
        self.connection.end_quick(answer)
        seconds = perf_counter() - self._started
        self._durations.add(route, self.head.method, answer.status, seconds)

    def _hand_over(self, outcome: BaseException | list[Received] | None) -> None:
        self.connection.hand_over(self._source, outcome, self._started)
