"""Send to a FIFO queue: each message once within five minutes, and in the order of its id."""

from __future__ import annotations

from collections.abc import Sequence

from mq.commit.operation import Operation, Pause
from mq.names import MessageId, QueueName
from mq.store.context import Workspace
from mq.store.indexing import find_space
from mq.store.publishing.publish import Published
from mq_sqs.fifo.fifo_queue import FifoQueue, FifoQueues
from mq_sqs.fifo.publishing import OrderedDraft, publish_in_order
from mq_sqs.fifo.using import use

_PAUSE_SECONDS = 0.002


def send_in_order(
    work: Workspace, fifo: FifoQueues, queue: QueueName, messages: Sequence[OrderedDraft]
) -> Operation[list[Published]]:
    """Publish those that were not sent within the last five minutes, in their order, all or none.
    The others are answered with the message that they repeat.

    On return all of them survive a power cut. Raises QueueNotFound, StoreUnavailable,
    PropertiesUnsupported.
    """
    if len(messages) == 1:
        return [(yield from _send_one(work, fifo, queue, messages[0]))]
    state, digests = yield from _begin(work, fifo, queue, messages)
    now = state.clock()
    told = {digest: state.deduplication.find(digest, now) for digest in digests}
    fresh = {
        digest: message
        for digest, message in reversed(list(zip(digests, messages, strict=True)))
        if told[digest] is None
    }
    in_order = [digest for digest in dict.fromkeys(digests) if digest in fresh]
    sending = {(queue, digest) for digest in in_order}
    fifo.sending |= sending
    try:
        drafts = [fresh[digest] for digest in in_order]
        published: Sequence[Published] = ()
        if drafts:
            published = yield from publish_in_order(work, fifo, queue, state, drafts)
        current = fifo.get(queue)
        for digest, each in zip(in_order, published, strict=True):
            if current is not None:
                current.accept(digest, each.message_id)
    finally:
        fifo.sending -= sending
    new = dict(zip(in_order, published, strict=True))
    return [_told(digest, told[digest], new) for digest in digests]


def _send_one(
    work: Workspace, fifo: FifoQueues, queue: QueueName, message: OrderedDraft
) -> Operation[Published]:
    """Do the same for one message, as most are sent, in fewer steps."""
    state, [digest] = yield from _begin(work, fifo, queue, [message])
    known = state.deduplication.find(digest, state.clock())
    if known is not None:
        return Published(known, None, True)
    fifo.sending.add((queue, digest))
    try:
        [published] = yield from publish_in_order(work, fifo, queue, state, [message])
        current = fifo.get(queue)
        if current is not None:
            current.accept(digest, published.message_id)
        return published
    finally:
        fifo.sending.discard((queue, digest))


def _begin(
    work: Workspace, fifo: FifoQueues, queue: QueueName, messages: Sequence[OrderedDraft]
) -> Operation[tuple[FifoQueue, list[bytes]]]:
    """Return the queue, which is held and has room, and the digests of the messages, none of which
    is just being sent."""
    while True:
        state = yield from use(work, fifo, queue)
        digests = [state.scope.digest(each.group, each.deduplication_id) for each in messages]
        if not fifo.sending.isdisjoint([(queue, each) for each in digests]):
            # What another request is sending may be sent, or fail.
            yield Pause(_PAUSE_SECONDS)
        elif not work.has_space(queue, len(messages)):
            yield from find_space(work, queue, len(messages))
        else:
            return state, digests


def _told(digest: bytes, known: MessageId | None, new: dict[bytes, Published]) -> Published:
    """Return what the sender of a message is told: that it was sent, or that it repeats one that
    was sent before or comes earlier in its batch."""
    if known is not None:
        return Published(known, None, True)
    first = new[digest]
    new[digest] = first._replace(is_duplicate=True)
    return first
