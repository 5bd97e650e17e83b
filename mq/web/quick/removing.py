"""Removals on the quick way: of one message, or of several."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from mq.names import MessageId, QueueName, parse_message_id
from mq.web.answers import Answer
from mq.web.endpoints.removing import answer_removed, read_ids
from mq.web.parameters import BareHead, read_leases
from mq.web.quick.taken_request import AskedFor, TakenRequest
from mq.web.routes import MESSAGE_PATH

_ACCEPTED = Answer(202)


class QuickRemoval(NamedTuple):
    """A message, if its lease is one of these; None for any."""

    message_id: MessageId
    leases: frozenset[int] | None

    @property
    def more_queues(self) -> tuple[QueueName, ...]:
        return ()

    def begin(self, request: TakenRequest, _body: bytes) -> None:
        done = partial(request.end, _ACCEPTED, MESSAGE_PATH)
        request.store.submit_remove(request.head.queue, self.message_id, self.leases, done)


class QuickRemovals(NamedTuple):
    """Several messages, each if its lease is one of these; None for any."""

    ids: Sequence[MessageId]
    leases: frozenset[int] | None

    @property
    def more_queues(self) -> tuple[QueueName, ...]:
        return ()

    def begin(self, request: TakenRequest, _body: bytes) -> None:
        done = partial(_end_several, request, self.ids)
        request.store.submit_remove_many(request.head.queue, self.ids, self.leases, done)


def read_removal(head: BareHead, ids: str) -> AskedFor:
    """Return what a removal asks for. Raises MQError."""
    if "," in ids:
        return QuickRemovals(read_ids(ids), read_leases(head))
    return QuickRemoval(parse_message_id(ids), read_leases(head))


def _end_several(
    request: TakenRequest,
    ids: Sequence[MessageId],
    result: object,
    error: BaseException | None,
) -> None:
    if isinstance(result, list):
        request.answer(answer_removed(ids, result), MESSAGE_PATH)
    else:
        request.hand_over(error)
