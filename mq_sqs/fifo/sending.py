"""Send to a FIFO queue: each message once within five minutes, and in the order of its id."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import NamedTuple

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation, Pause
from mq.config import SECOND_NS
from mq.errors import QueueLocked, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, Position, QueueName, file_name
from mq.spool.calls import check
from mq.spool.file_work import FileCalls, FileWork, do_together
from mq.store.context import Workspace
from mq.store.indexing import find_space
from mq.store.publish import Draft, Published, deliver, deliver_once_unlocked, linking
from mq_sqs.fifo.fifo_queue import FifoQueue, FifoQueues
from mq_sqs.fifo.using import use

_PAUSE_SECONDS = 0.002
_LATE_NS = SECOND_NS


class OrderedDraft(NamedTuple):
    """A message to send, its body in memory."""

    draft: Draft
    group: str
    deduplication_id: str


class _Linked(NamedTuple):
    """A message that has its name in `new`, under its lock."""

    draft: Draft
    position: Position
    visible_ns: int | None
    fd: int


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
        digests = [state.scope.digest(each.group, each.deduplication_id) for each in messages]
        if any((queue, each) in fifo.sending for each in digests):
            # What another request is sending may be sent, or fail.
            yield Pause(_PAUSE_SECONDS)
        elif not work.has_space(queue, len(messages)):
            yield from find_space(work, queue, len(messages))
        else:
            break
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
            published = yield from _publish(work, fifo, queue, state, drafts)
        current = fifo.get(queue)
        for digest, each in zip(in_order, published, strict=True):
            if current is not None:
                current.accept(digest, each.message_id)
    finally:
        fifo.sending -= sending
    new = dict(zip(in_order, published, strict=True))
    return [_told(digest, told[digest], new) for digest in digests]


def _told(digest: bytes, known: MessageId | None, new: dict[bytes, Published]) -> Published:
    """What is said of a message: that it was sent, or repeats one that was sent before, or comes
    earlier in its batch."""
    if known is not None:
        return Published(known, None, True)
    first = new[digest]
    new[digest] = first._replace(is_duplicate=True)
    return first


def _publish(
    work: Workspace,
    fifo: FifoQueues,
    queue: QueueName,
    state: FifoQueue,
    messages: Sequence[OrderedDraft],
) -> Operation[list[Published]]:
    """Do as `mq.store.publish.publish` does, for several messages. The queue is held.

    From here on until a message is in its place, none behind it is received. If that fails after
    the first has a name, what there is is read from the files again.
    """
    work.require_room(sum(each.draft.length + len(each.draft.trailer) for each in messages))
    work.spool.use_long_seals()
    positions = [work.ids.next_position() for _ in messages]
    for position, message in zip(positions, messages, strict=True):
        state.place(position.message_id, message.group)
    work.undelivered[queue] += len(messages)
    is_published = are_late = False
    try:
        linked = yield from _link(work, queue, messages, positions)
        try:
            yield Unsynced(tuple(each.fd for each in linked), (Folder.NEW,))
        except BaseException as error:
            fifo.drop(queue)
            _take_back(work, queue, linked, is_unlinked=isinstance(error, StoreUnavailable))
            raise
        is_published = True
        work.counts.of(queue).published += len(linked)
        are_late = yield from _deliver(work, queue, state, linked)
        return [Published(each.position.message_id, each.visible_ns) for each in linked]
    finally:
        work.undelivered[queue] -= len(messages)
        if not is_published:
            for position in positions:
                state.forget(position.message_id)
        elif are_late:
            work.request_sweep()


def _link(
    work: Workspace,
    queue: QueueName,
    messages: Sequence[OrderedDraft],
    positions: Sequence[Position],
) -> FileWork[list[_Linked]]:
    """All of them, or none. Raises OSError."""
    works = [
        _link_one(work, queue, each.draft, position)
        for each, position in zip(messages, positions, strict=True)
    ]
    if len(works) == 1:
        # Its calls are made with those of the round.
        return [(yield from works[0])]
    outcomes = do_together(works)
    linked = [each for each in outcomes if isinstance(each, _Linked)]
    for each in outcomes:
        if isinstance(each, Exception):
            _take_back(work, queue, linked, is_unlinked=True)
            raise each
    return linked


def _link_one(
    work: Workspace, queue: QueueName, draft: Draft, position: Position
) -> FileWork[_Linked]:
    name = file_name(queue, position.message_id)
    chain, visible_ns = linking(work, queue, draft, name, position.published_ns)
    results = check((yield FileCalls(work.files, chain)))
    return _Linked(draft, position, visible_ns, results[0])


def _take_back(
    work: Workspace, queue: QueueName, linked: Sequence[_Linked], *, is_unlinked: bool
) -> None:
    """Close them, and take their names back. A sweep delivers what keeps its name; that raises
    OSError."""
    failure: OSError | None = None
    for each in linked:
        try:
            if is_unlinked:
                work.spool.unlink(Folder.NEW, file_name(queue, each.position.message_id))
        except OSError as error:
            failure = None if error.errno == errno.ENOENT else error
        finally:
            work.files.close(each.fd)
    if failure is not None:
        raise failure


def _deliver(
    work: Workspace, queue: QueueName, state: FifoQueue, linked: Sequence[_Linked]
) -> Operation[bool]:
    """Whether some of them are left to a sweep. Raises QueueNotFound if the queue was deleted, and
    so were they."""
    late_ns = work.clock_ns() + _LATE_NS
    for each in linked:
        state.expect(each.position.message_id, each.visible_ns or late_ns)
    places = [
        (work, queue, each.draft, each.fd, (each.position, each.visible_ns)) for each in linked
    ]
    if len(places) == 1:
        return not (yield from deliver_once_unlocked(*places[0]))
    outcomes = do_together([deliver(*place) for place in places])
    for number, outcome in enumerate(outcomes):
        if isinstance(outcome, QueueLocked):
            outcomes[number] = yield from deliver_once_unlocked(*places[number])
        elif isinstance(outcome, Exception):
            raise outcome
    return not all(outcomes)
