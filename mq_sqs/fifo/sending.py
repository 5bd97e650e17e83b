"""Send to a FIFO queue: each message once within five minutes, and in the order of its id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mq.commit.operation import Operation, Pause, Together
from mq.errors import StoreUnavailable
from mq.names import QueueName
from mq.store.indexing import find_space
from mq.store.publishing.publish import Published
from mq.store.shared_state import Workspace
from mq_sqs.fifo.fifo_queue import FifoQueue, FifoQueues
from mq_sqs.fifo.publishing import (
    Destination,
    OrderedDraft,
    bytes_of,
    publish_each_in_order,
    publish_in_order,
)
from mq_sqs.fifo.using import use

T = TypeVar("T")

_Publish = Callable[[Destination, Sequence[OrderedDraft]], Operation[list[T]]]

_PAUSE_SECONDS = 0.002


def send_in_order(
    work: Workspace, fifo: FifoQueues, queue: QueueName, messages: Sequence[OrderedDraft]
) -> Operation[list[Published]]:
    """Publish those that were not sent within the last five minutes, in their order, all or none.
    The others are answered with the message that they repeat.

    On return all of them survive a power cut. Raises QueueNotFound, StoreUnavailable,
    PropertiesUnsupported.
    """
    while True:
        state = yield from use(work, fifo, queue)
        digests = _digests(state, messages)
        if fifo.is_sending(queue, digests):
            # What another request is sending may be sent, or fail.
            yield Pause(_PAUSE_SECONDS)
            continue
        new = _count_new(state, digests)
        if not new or work.knows_space(queue, new):
            break
        yield from find_space(work, queue, new)
    to = Destination(work, fifo, state)
    return (yield from _send(to, messages, digests, publish_in_order))


def send_each(
    work: Workspace, fifo: FifoQueues, queue: QueueName, messages: Sequence[OrderedDraft]
) -> Operation[list[Published | BaseException]]:
    """Do the same for messages of several requests, each by itself. Returns for each what
    `send_in_order` returns or raises; raises what concerns all of them."""
    state = yield from use(work, fifo, queue)
    digests = _digests(state, messages)
    if fifo.is_sending(queue, digests) or not _is_usual(work, queue, messages):
        alone = [_send_alone(work, fifo, queue, each) for each in messages]
        one_by_one: list[Any] = yield Together(alone)
        return one_by_one
    to = Destination(work, fifo, state)
    outcomes = yield from _send(to, messages, digests, publish_each_in_order)
    return [*outcomes]


def _send_alone(
    work: Workspace, fifo: FifoQueues, queue: QueueName, message: OrderedDraft
) -> Operation[Published]:
    [published] = yield from send_in_order(work, fifo, queue, [message])
    return published


def _digests(state: FifoQueue, messages: Sequence[OrderedDraft]) -> list[bytes]:
    return [state.scope.digest(each.group, each.deduplication_id) for each in messages]


def _count_new(state: FifoQueue, digests: Sequence[bytes]) -> int:
    """Return how many messages would be published: a repeated one needs no room."""
    now = state.clock()
    return sum(state.deduplication.find(digest, now) is None for digest in set(digests))


def _is_usual(work: Workspace, queue: QueueName, messages: Sequence[OrderedDraft]) -> bool:
    """Return whether nothing can be wrong with only some of them before their files are made."""
    try:
        work.require_room(bytes_of(messages))
        return work.spool.has_long_seals and work.knows_space(queue, len(messages))
    except StoreUnavailable:
        return False  # There may be room for some.


def _send(
    to: Destination,
    messages: Sequence[OrderedDraft],
    digests: Sequence[bytes],
    publish: _Publish[T],
) -> Operation[list[T | Published]]:
    """Publish what is new among the messages, none of which is just being sent. Returns for each
    what its sender is told: that it was sent, or that it repeats one that was sent before or comes
    earlier here."""
    told: dict[bytes, T | Published] = {}
    fresh: dict[bytes, OrderedDraft] = {}
    now = to.state.clock()
    for digest, message in zip(digests, messages, strict=True):
        known = to.state.deduplication.find(digest, now)
        if known is None:
            fresh.setdefault(digest, message)
        else:
            told[digest] = Published(known, None, True)
    if fresh:
        with to.fifo.sending(to.state.name, fresh):
            outcomes = yield from publish(to, list(fresh.values()))
            current = to.fifo.get(to.state.name)
            for digest, outcome in zip(fresh, outcomes, strict=True):
                told[digest] = outcome
                if current is not None and isinstance(outcome, Published):
                    current.accept(digest, outcome.message_id)
    return [_tell(told, digest) for digest in digests]


def _tell(told: dict[bytes, T | Published], digest: bytes) -> T | Published:
    """Return what the sender of a message is told. Those who have sent the same are told that
    theirs is a duplicate."""
    first = told[digest]
    if isinstance(first, Published):
        told[digest] = first._replace(is_duplicate=True)
    return first
