"""Publish messages of a FIFO queue in their order.

    one message     written and linked into `new`, synced, delivered, as elsewhere; those of other
                    requests may share the calls
    a batch         all are written and synced; then they are linked, in order, and that is synced;
                    then they are delivered

So a crash leaves the first ones of a batch, each of them whole, or none. A message in the middle
that was torn, or lacked its name, would come after those behind it when its sender tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation, client_error
from mq.config import SECOND_NS
from mq.disk.calls import Chain, check
from mq.disk.file_work import FileCalls, FileWork, do_together
from mq.errors import StoreUnavailable
from mq.ids import Position
from mq.lifecycle import Folder
from mq.names import QueueName, file_name
from mq.store.holding import hold
from mq.store.publishing.delivering import Linked, deliver_all, deliver_once_unlocked
from mq.store.publishing.publish import LINKED_IN_NEW, Draft, Published, linking, visible_from
from mq.store.shared_state import Workspace
from mq_sqs.fifo.fifo_queue import FifoQueue, FifoQueues

_LATE_NS = SECOND_NS


class OrderedDraft(NamedTuple):
    """A message to send, its body in memory."""

    draft: Draft
    group: str
    deduplication_id: str


class _Written(NamedTuple):
    """A message in a file that is open and locked."""

    message: OrderedDraft
    position: Position
    visible_ns: int | None
    fd: int


class Destination(NamedTuple):
    """The queue that messages are sent to. It is held, and `state` is what is known of it."""

    work: Workspace
    fifo: FifoQueues
    state: FifoQueue


_Link = Callable[
    [Destination, Sequence[OrderedDraft], Sequence[Position]],
    Operation[list[_Written | BaseException]],
]


def publish_in_order(
    to: Destination, messages: Sequence[OrderedDraft]
) -> Operation[list[Published]]:
    """Do as `mq.store.publishing.publish.publish` does, for all of several messages or none.

    From here on until a message is in its place, none behind it is received. If this fails and a
    message may be left, the queue is read from its files again. Raises QueueNotFound,
    StoreUnavailable, PropertiesUnsupported.
    """
    to.work.require_room(bytes_of(messages))
    to.work.spool.use_long_seals()
    link = _link_only if len(messages) == 1 else _link_all
    outcomes = yield from _publish(to, messages, link)
    published = []
    for each in outcomes:
        if isinstance(each, BaseException):
            raise each
        published.append(each)
    return published


def publish_each_in_order(
    to: Destination, messages: Sequence[OrderedDraft]
) -> Operation[list[Published | BaseException]]:
    """Do the same for messages of several requests, each by itself, with their file calls made
    together. There is room for them, and the root has long seals. Returns for each what
    `publish_in_order` returns or raises; raises what concerns all of them."""
    return _publish(to, messages, _link_each)


def bytes_of(messages: Sequence[OrderedDraft]) -> int:
    """Return how many bytes of room they need."""
    return sum(each.draft.length + len(each.draft.trailer) for each in messages)


def _publish(
    to: Destination, messages: Sequence[OrderedDraft], link: _Link
) -> Operation[list[Published | BaseException]]:
    work, fifo, state = to
    queue = state.name
    positions = [work.ids.next_position() for _ in messages]
    for position, message in zip(positions, messages, strict=True):
        state.place(position.message_id, message.group)
    work.undelivered[queue] += len(messages)
    left = {position.message_id for position in positions}
    are_late = False
    try:
        outcomes: list[Any] = yield from link(to, messages, positions)
        linked = {at: each for at, each in enumerate(outcomes) if isinstance(each, _Written)}
        if linked:
            written = list(linked.values())
            yield from _sync(to, written)
            left.difference_update(each.position.message_id for each in written)
            work.counts.of(queue).published += len(written)
            # The queue may have been read again meanwhile.
            delivered = yield from _deliver(work, fifo.get(queue) or state, written)
            are_late = not all(delivered)
            for (at, each), outcome in zip(linked.items(), delivered, strict=True):
                if isinstance(outcome, BaseException):
                    outcomes[at] = client_error(outcome)
                else:
                    outcomes[at] = Published(each.position.message_id, each.visible_ns)
        return outcomes
    finally:
        work.end_delivery(queue, len(messages))
        for message_id in left:
            state.forget(message_id)
        if are_late:
            work.request_sweep()


def _sync(to: Destination, linked: Sequence[_Written]) -> Operation[None]:
    """Make messages durable in `new`. A failed sync takes their names back."""
    try:
        fds = tuple(each.fd for each in linked)
        yield Unsynced(fds, (), False, LINKED_IN_NEW, len(fds))
    except BaseException as error:
        to.fifo.drop(to.state.name)
        try:
            if isinstance(error, StoreUnavailable):
                _unlink(to.work, to.state.name, linked)
        finally:
            _close(to.work, linked)
        raise


def _link_only(
    to: Destination, messages: Sequence[OrderedDraft], positions: Sequence[Position]
) -> Operation[list[_Written | BaseException]]:
    """Write and link one message, its file calls made with those of other operations."""
    return [(yield from _link_one(to.work, to.state.name, messages[0], positions[0]))]


def _link_each(
    to: Destination, messages: Sequence[OrderedDraft], positions: Sequence[Position]
) -> Operation[list[_Written | BaseException]]:
    """Write and link messages of several requests. Returns what is wrong with each that fails."""
    pairs = zip(messages, positions, strict=True)
    outcomes = do_together([_link_one(to.work, to.state.name, *each) for each in pairs])
    return [client_error(each) if isinstance(each, Exception) else each for each in outcomes]
    yield


def _link_one(
    work: Workspace, queue: QueueName, message: OrderedDraft, position: Position
) -> FileWork[_Written]:
    chain, visible_ns = _chain_of(work, queue, message, position)
    results = check((yield FileCalls(work.files, chain)))
    return _Written(message, position, visible_ns, results[0])


def _write(
    work: Workspace, queue: QueueName, message: OrderedDraft, position: Position
) -> FileWork[_Written]:
    """Do as `_link_one` does, but without the link."""
    (*calls, _link), visible_ns = _chain_of(work, queue, message, position)
    results = check((yield FileCalls(work.files, tuple(calls))))
    return _Written(message, position, visible_ns, results[0])


def _chain_of(
    work: Workspace, queue: QueueName, message: OrderedDraft, position: Position
) -> tuple[Chain, int | None]:
    draft, name = message.draft, file_name(queue, position.message_id)
    visible_ns = visible_from(work, queue, draft)
    return linking(work, draft, name, position.published_ns, visible_ns), visible_ns


def _link_all(
    to: Destination, messages: Sequence[OrderedDraft], positions: Sequence[Position]
) -> Operation[list[_Written | BaseException]]:
    """Write all of them, make their data durable, and link them in order. If that fails, all is
    taken back. Raises OSError, QueueNotFound, StoreUnavailable."""
    work, fifo, state = to
    queue = state.name
    works = [
        _write(work, queue, each, position)
        for each, position in zip(messages, positions, strict=True)
    ]
    outcomes = do_together(works)
    written = [each for each in outcomes if isinstance(each, _Written)]
    are_linked = False
    try:
        for each in outcomes:
            if isinstance(each, Exception):
                raise each
        yield Unsynced(tuple(each.fd for each in written), ())
        # The queue's lock ended at the barrier.
        yield from hold(work, queue)
        link, files = work.spool.link_call, work.files
        links = tuple(link(each.fd, Folder.NEW, _name_of(queue, each)) for each in written)
        # A chain ends at the first call that fails.
        results, code = yield FileCalls(files, links)
        if code:
            try:
                _unlink(work, queue, written[: len(results) + 1])
            except OSError:
                fifo.drop(queue)
                raise
        check((results, code))
        are_linked = True
        return [*written]
    finally:
        if not are_linked:
            _close(work, written)


def _name_of(queue: QueueName, written: _Written) -> str:
    return file_name(queue, written.position.message_id)


def _unlink(work: Workspace, queue: QueueName, linked: Sequence[_Written]) -> None:
    """Take their names back, the last one first: if that is cut off, the first ones are left, and
    a sweep delivers them. Raises OSError."""
    for each in reversed(linked):
        with suppress(FileNotFoundError):
            work.spool.unlink(Folder.NEW, _name_of(queue, each))


def _close(work: Workspace, written: Sequence[_Written]) -> None:
    for each in written:
        work.files.close(each.fd)


def _deliver(
    work: Workspace, state: FifoQueue, linked: Sequence[_Written]
) -> Operation[list[bool | BaseException]]:
    """Return for each whether it was delivered, which is False if it is left to a sweep, or
    QueueNotFound if the queue was deleted, and so was the message."""
    late_ns = work.clock_ns() + _LATE_NS
    for message, position, visible_ns, _ in linked:
        if position.message_id not in state.groups:
            state.place(position.message_id, message.group)
        state.expect(position.message_id, visible_ns or late_ns)
    named = [Linked(state.name, each.position, each.visible_ns, each.fd) for each in linked]
    if len(named) == 1:
        return [(yield from deliver_once_unlocked(work, named[0]))]
    return (yield from deliver_all(work, named))
