"""Receives on the quick way: of what is there or comes, or of a certain message."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from multidict import istr

from mq.names import MessageId, QueueName
from mq.store.by_id import Guard, release, take
from mq.store.receiving.received_message import Received
from mq.times import in_ns
from mq.web.answers import Answer
from mq.web.endpoints.receiving import QUEUES, THEN, answer_at_once, read_by_id, read_receiving
from mq.web.parameters import BareHead, read_parameters, read_queues
from mq.web.quick.taken_request import AskedFor, TakenRequest
from mq.web.routes import MESSAGES_PATH
from mq.web.standing_in_line import Wait, stand_in_line

_PARAMETERS = frozenset({"wait", "visibility", "max", "id", THEN})
_IF_MATCH = istr("If-Match")
_NO_CONTENT = Answer(204)


class QuickReceive(NamedTuple):
    """One message, or lines for up to `limit`, which are hidden for `visibility_ns` and waited for,
    from the first of these queues that has any. The answer says which one that is, if the request
    names several."""

    queues: tuple[QueueName, ...]
    limit: int | None = None
    visibility_ns: int | None = None
    wait_seconds: float = 0.0
    names_queue: bool = False

    @property
    def more_queues(self) -> tuple[QueueName, ...]:
        return self.queues[1:]

    def begin(self, request: TakenRequest, _body: bytes) -> None:
        """Receive with others of the round if a message is there, or else in line."""
        if self.wait_seconds and max(map(request.store.count_spare, self.queues)) <= 0:
            self._wait(request)
        else:
            self._try(request, 0)

    def _try(self, request: TakenRequest, number: int) -> None:
        tried, may_wait = partial(self._tried, request, number), self.wait_seconds > 0
        asked = self.queues[number], tried, self.limit or 1, self.visibility_ns
        request.store.submit_receive(*asked, may_wait=may_wait)

    def _tried(
        self,
        request: TakenRequest,
        number: int,
        result: list[Received] | None,
        error: BaseException | None,
    ) -> None:
        if error is not None or result:
            self._end(request, result, error)
        elif number + 1 < len(self.queues):
            self._try(request, number + 1)
        elif self.wait_seconds:
            self._wait(request)  # Another one was faster.
        else:
            self._end(request, result, error)

    def _wait(self, request: TakenRequest) -> None:
        wait = Wait(self.queues, self.limit or 1, self.visibility_ns, self.wait_seconds)
        stand_in_line(request.connection, request.store, wait, partial(self._end, request))

    def _end(
        self, request: TakenRequest, result: list[Received] | None, error: BaseException | None
    ) -> None:
        answer_received(request, result, error, self.limit, names_queue=self.names_queue)


class QuickReceiveById(NamedTuple):
    """A certain message, on the condition `guard`: hidden for `visibility_ns`, released for 0."""

    message_id: MessageId
    visibility_ns: int | None
    guard: Guard | None

    @property
    def more_queues(self) -> tuple[QueueName, ...]:
        return ()

    def begin(self, request: TakenRequest, _body: bytes) -> None:
        asked, hidden_ns = (request.head.queue, self.message_id), self.visibility_ns
        if hidden_ns == 0:
            done = partial(request.end, _NO_CONTENT, MESSAGES_PATH)
            request.store.submit(lambda work: release(work, *asked, self.guard), done)
        else:
            taken = partial(_taken, request)
            request.store.submit(lambda work: take(work, *asked, hidden_ns, self.guard), taken)


def read_receive(head: BareHead, queue: QueueName, query: str) -> AskedFor | None:
    """Return what a receive asks for, or None if it is for the usual way. Raises MQError."""
    parameters = read_parameters(query, _PARAMETERS, QUEUES)
    if "id" in parameters:
        message_id, visibility, guard = read_by_id(head, parameters)
        return QuickReceiveById(message_id, in_ns(visibility), guard)
    limit, wait, visibility = read_receiving(parameters)
    then = read_queues(parameters, THEN, queue)
    if _IF_MATCH in head.headers:
        return None
    queues = (queue, *(then or ()))
    return QuickReceive(queues, limit, in_ns(visibility), wait, then is not None)


def _taken(request: TakenRequest, result: Received | None, error: BaseException | None) -> None:
    answer_received(request, None if result is None else [result], error)


def answer_received(
    request: TakenRequest,
    received: list[Received] | None,
    error: BaseException | None,
    limit: int | None = None,
    *,
    names_queue: bool = False,
) -> None:
    """Answer with messages, or that there are none. If the client has left they are given back. If
    it must be there until it has taken most of the bodies, or seems to have left already, the usual
    way answers."""
    connection, transport = request.connection, request.transport
    if error is not None:
        request.hand_over(error)
    elif transport is None or transport.is_closing():
        request.store.give_back(received or ())
        connection.end_quick(None)
    elif not received:
        request.answer(_NO_CONTENT, MESSAGES_PATH)
    else:
        try:
            answer = answer_at_once(received, limit, transport, names_queue=names_queue)
            if answer is None or connection.has_closed(transport):
                request.hand_over(received)
            else:
                request.answer(answer, MESSAGES_PATH)
        except ValueError as invalid:
            # A header that cannot be sent: the usual way logs it, and answers 500.
            request.store.give_back(received)
            request.hand_over(invalid)
