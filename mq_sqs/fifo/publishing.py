"""Publish messages of a FIFO queue in their order.

    one message     written and linked into `new`, synced, delivered, as elsewhere
    several         all are written and synced; then they are linked, in order, and that is synced;
                    then they are delivered

So a crash leaves the first ones of a batch, each of them whole, or none. A message that was torn,
or lacked its name, would come after those behind it when its sender tries again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation
from mq.config import SECOND_NS
from mq.disk.calls import Chain, check
from mq.disk.file_work import FileCalls, FileWork, do_together
from mq.errors import QueueLocked, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import Position, QueueName, file_name
from mq.store.context import Workspace
from mq.store.holding import hold
from mq.store.publishing.publish import Draft, Published, deliver, deliver_once_unlocked, linking
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


def publish_in_order(
    work: Workspace,
    fifo: FifoQueues,
    queue: QueueName,
    state: FifoQueue,
    messages: Sequence[OrderedDraft],
) -> Operation[list[Published]]:
    """Do as `mq.store.publishing.publish.publish` does, for several messages. The queue is held.

    From here on until a message is in its place, none behind it is received. If this fails and a
    message may be left, the queue is read from its files again. Raises QueueNotFound,
    StoreUnavailable, PropertiesUnsupported.
    """
    work.require_room(sum(each.draft.length + len(each.draft.trailer) for each in messages))
    work.spool.use_long_seals()
    positions = [work.ids.next_position() for _ in messages]
    for position, message in zip(positions, messages, strict=True):
        state.place(position.message_id, message.group)
    work.undelivered[queue] += len(messages)
    is_published = are_late = False
    try:
        if len(messages) == 1:
            linked = [(yield from _link_one(work, queue, messages[0], positions[0]))]
        else:
            linked = yield from _link_all(work, fifo, queue, messages, positions)
        try:
            fds = tuple(each.fd for each in linked)
            yield Unsynced(fds, (), implied=(Folder.NEW,))
        except BaseException as error:
            fifo.drop(queue)
            try:
                if isinstance(error, StoreUnavailable):
                    _unlink(work, queue, linked)
            finally:
                _close(work, linked)
            raise
        is_published = True
        work.counts.of(queue).published += len(linked)
        # The queue may have been read again meanwhile.
        are_late = yield from _deliver(work, queue, fifo.get(queue) or state, linked)
        return [Published(each.position.message_id, each.visible_ns) for each in linked]
    finally:
        work.end_delivery(queue, len(messages))
        if not is_published:
            for position in positions:
                state.forget(position.message_id)
        elif are_late:
            work.request_sweep()


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
    name = file_name(queue, position.message_id)
    return linking(work, queue, message.draft, name, position.published_ns)


def _link_all(
    work: Workspace,
    fifo: FifoQueues,
    queue: QueueName,
    messages: Sequence[OrderedDraft],
    positions: Sequence[Position],
) -> Operation[list[_Written]]:
    """Write all of them, make their data durable, and link them in order. If that fails, all is
    taken back. Raises OSError, QueueNotFound, StoreUnavailable."""
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
        return written
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
    work: Workspace, queue: QueueName, state: FifoQueue, linked: Sequence[_Written]
) -> Operation[bool]:
    """Return whether some of them are left to a sweep. Raises QueueNotFound if the queue was
    deleted, and so were they."""
    late_ns = work.clock_ns() + _LATE_NS
    for message, position, visible_ns, _ in linked:
        if position.message_id not in state.groups:
            state.place(position.message_id, message.group)
        state.expect(position.message_id, visible_ns or late_ns)
    if len(linked) == 1:
        [(message, position, visible_ns, fd)] = linked
        place = position, visible_ns
        return not (yield from deliver_once_unlocked(work, queue, message.draft, fd, place))
    places = [
        (work, queue, each.message.draft, each.fd, (each.position, each.visible_ns))
        for each in linked
    ]
    outcomes = do_together([deliver(*place) for place in places])
    for number, outcome in enumerate(outcomes):
        if isinstance(outcome, QueueLocked):
            outcomes[number] = yield from deliver_once_unlocked(*places[number])
        elif isinstance(outcome, Exception):
            raise outcome
    return not all(outcomes)
