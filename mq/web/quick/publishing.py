"""Publishes on the quick way: of one message, or of a batch."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from mq.config import MAX_DELAY_SECONDS, SMALL_BODY_BYTES, SMALL_TEXT_BYTES
from mq.errors import MQError
from mq.names import MessageId, QueueName
from mq.spool.message.trailer import pack_trailer
from mq.store.publishing.publish import Draft, Entry, Published
from mq.store.removing.remove_under_lease import Removed
from mq.store.store import Store
from mq.times import in_ns
from mq.web.endpoints.batch_lines import parse_batch
from mq.web.endpoints.batches import answer_batch, check_headers
from mq.web.endpoints.publishing import ALSO, BATCH, DELAY, REMOVES, answer_published
from mq.web.parameters import (
    BareHead,
    Target,
    read_content_type,
    read_flag,
    read_own_id,
    read_parameters,
    read_queues,
    read_removes,
    read_seconds,
)
from mq.web.properties import read_properties
from mq.web.quick.taken_request import AskedFor, TakenRequest
from mq.web.routes import MESSAGES_PATH

_PARAMETERS = frozenset({ALSO, BATCH, DELAY, REMOVES})
_LISTS = frozenset({ALSO})


class QuickPublish(NamedTuple):
    """A message whose packed properties are `trailer`, under the producer's id if there is one, to
    the queue and to those in `also`, hidden for `delay_ns` at first, with the removal of
    `removes`."""

    content_type: str | None = None
    trailer: bytes = b""
    own_id: MessageId | None = None
    also: tuple[QueueName, ...] = ()
    delay_ns: int | None = None
    removes: Removed = None

    @property
    def more_queues(self) -> Iterator[QueueName]:
        yield from self.also
        if self.removes is not None:
            yield self.removes[0]

    def begin(self, request: TakenRequest, body: bytes) -> None:
        draft = Draft(len(body), zlib.crc32(body), self.content_type, body)
        if self.own_id is not None:
            draft.message_id = self.own_id
        if self.trailer:
            draft.trailer = self.trailer
        if self.delay_ns is not None:
            draft.delay_ns = self.delay_ns
        done, queue = partial(_end, request), request.head.queue
        request.store.submit_publish(queue, draft, done, self.also, self.removes)


class QuickBatch(NamedTuple):
    """A batch whose lines are in the body, to the queue and to those in `also`."""

    also: tuple[QueueName, ...]

    @property
    def more_queues(self) -> tuple[QueueName, ...]:
        return self.also

    def begin(self, request: TakenRequest, body: bytes) -> None:
        """Publish a batch, unless something is wrong with it, or it names queues of its own, which
        a token may forbid."""
        store = request.store
        try:
            entries = parse_batch(body, store.max_body_bytes, 1 + len(self.also))
        except MQError:
            entries = []
        if not entries or any(each.queue for each in entries):
            request.hand_over(None)
        else:
            done = partial(_end_batch, request, entries)
            store.submit_batch(request.head.queue, entries, done, self.also)


def read_publish(
    store: Store, head: BareHead, queue: QueueName, query: str, length: int
) -> AskedFor | None:
    """Return what a publish with a body of that length asks for, or None if it is for the usual
    way. Raises MQError."""
    parameters = read_parameters(query, _PARAMETERS, _LISTS)
    also = read_queues(parameters, ALSO, queue) or ()
    delay_ns = in_ns(read_seconds(parameters, DELAY, MAX_DELAY_SECONDS))
    # Whether a token is for its queue too is asked with each request.
    removes = read_removes(head, Target(queue, "", parameters, QueueName), REMOVES)
    if read_flag(parameters, BATCH):
        check_headers(head)
        is_plain = delay_ns is None and removes is None
        return QuickBatch(also) if is_plain and length <= SMALL_TEXT_BYTES else None
    if length > min(SMALL_BODY_BYTES, store.max_body_bytes):
        return None
    own_id, properties = read_own_id(head), read_properties(head)
    trailer = pack_trailer(properties) if properties else b""
    return QuickPublish(read_content_type(head), trailer, own_id, also, delay_ns, removes)


def _end(request: TakenRequest, result: object, error: BaseException | None) -> None:
    if isinstance(result, Published):
        request.answer(answer_published(request.head.queue, result), MESSAGES_PATH)
    else:
        request.hand_over(error)


def _end_batch(
    request: TakenRequest, entries: list[Entry], result: object, error: BaseException | None
) -> None:
    if isinstance(result, list):
        request.answer(answer_batch(entries, result), MESSAGES_PATH)
    else:
        request.hand_over(error)
