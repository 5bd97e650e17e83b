"""A request that the quick way has taken, from its head to its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from time import perf_counter
from typing import NamedTuple, Protocol

from multidict import CIMultiDictProxy

from mq.names import QueueName
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from mq.web.answers import Answer
from mq.web.connections.quick_connection import Parsed, QuickConnection
from mq.web.durations import Durations


class AskedFor(Protocol):
    """What a request asks for."""

    @property
    def more_queues(self) -> Iterable[QueueName]:
        """The queues that it must be allowed to use, besides that of its path."""

    def begin(self, request: TakenRequest, body: bytes) -> None:
        """Do it. From here on the request is answered, or handed over."""


class QuickHead(NamedTuple):
    """A head that the quick way can answer, with a body of `body_bytes`. `is_ours` says that
    `OriginPolicy` admits such a head on any connection."""

    method: str
    queue: QueueName
    headers: CIMultiDictProxy[str]
    asked: AskedFor
    body_bytes: int = 0
    is_ours: bool = False


class TakenRequest:
    """One request on its way. `source` is the parsed request, or the bytes of one that the parser
    has not seen; `durations` records how long it took."""

    __slots__ = ("_durations", "_source", "_started", "connection", "head", "headers", "store")

    def __init__(
        self,
        store: Store,
        durations: Durations,
        connection: QuickConnection,
        head: QuickHead,
        source: Parsed | bytes,
    ) -> None:
        self._started = perf_counter()
        self._durations = durations
        self._source = source
        self.store = store
        self.connection = connection
        self.head = head
        self.headers = head.headers

    @property
    def transport(self) -> asyncio.Transport | None:
        return self.connection.own_transport

    def begin(self, body: bytes) -> None:
        """Do what is asked for. From here on the quick way answers this request, or hands it
        over."""
        self.connection.begin_quick()
        self.head.asked.begin(self, body)

    def answer(self, answer: Answer, route: str) -> None:
        """Answer a success."""
        self.connection.end_quick(answer)
        seconds = perf_counter() - self._started
        self._durations.add(route, self.head.method, answer.status, seconds)

    def end(self, answer: Answer, route: str, result: object, error: BaseException | None) -> None:
        """Answer that something was done which has no result, or hand its error over."""
        if result is None and error is None:
            self.answer(answer, route)
        else:
            self.hand_over(error)

    def hand_over(self, outcome: BaseException | list[Received] | None) -> None:
        """Leave the answer to the usual way, which is given what has come of the request."""
        self.connection.hand_over(self._source, outcome, self._started)
