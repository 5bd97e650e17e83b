"""Publish: an unnamed file is written, sealed, locked, linked into `new`, and then delivered."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from typing import NamedTuple

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation
from mq.disk.calls import LOCK, OPEN_UNNAMED, SYNC, WRITE, Chain, check
from mq.disk.file_work import FileCalls
from mq.errors import QueueLocked, QueueNotFound, StoreUnavailable
from mq.lifecycle import Folder, State
from mq.names import MessageId, QueueName, file_name
from mq.spool.message.held import NO_FD, Sum, seal_of
from mq.spool.message.seal import due_ns, pack_new, round_up, sealing, state_in
from mq.spool.message.trailer import NO_TRAILER
from mq.store.holding import hold
from mq.store.indexing import find_space
from mq.store.publishing.delivering import Linked, deliver, deliver_once_unlocked, let_go
from mq.store.queue.settings import delay_ns
from mq.store.shared_state import Workspace, refuse_fifo

_NEW = Folder.NEW
LINKED_IN_NEW = (_NEW,)

MAX_BATCHES_AT_ONCE = 4
"""This many batches are in memory and published at the same time; others wait."""


@dataclass(slots=True)
class Draft:
    """A message to publish: its body of `length` bytes with that CRC-32, in memory or in `fd`, an
    unnamed file that is written and synced, and stays open until the message is published or
    refused. Nothing changes it; it is not frozen, because a frozen one takes three times as long to
    make.

    `message_id` is the producer's own id, None for a new one. `delay_ns` is how long the message is
    hidden from its publication on, None if the queue says. `trailer` are its properties, as
    `mq.spool.message.trailer.pack_trailer` makes them; in `fd` they follow the body already.
    """

    length: int
    crc32: int
    content_type: str | None = None
    body: bytes | None = None
    fd: int = NO_FD
    message_id: MessageId | None = None
    delay_ns: int | None = None
    trailer: bytes = NO_TRAILER

    def sum(self) -> Sum:
        return Sum(self.length, self.crc32, *self._sum_of_trailer())

    def seal(self, published_ns: int) -> bytes:
        """Return the seal of the message, packed, at the moment of its publication."""
        if not self.trailer:  # This is the case of nearly every message.
            return pack_new(self.length, self.crc32, published_ns)
        return pack_new(self.length, self.crc32, published_ns, *self._sum_of_trailer())

    def _sum_of_trailer(self) -> tuple[int, int]:
        return (len(self.trailer), zlib.crc32(self.trailer)) if self.trailer else (0, 0)


class Entry(NamedTuple):
    """A message of a batch, its body in memory; the number of its line, None if it is not from a
    line; and its queue, None for that of the batch."""

    line: int | None
    draft: Draft
    queue: QueueName | None = None


class Published(NamedTuple):
    """A message that is published. `visible_ns` is when a delayed one becomes visible, in ns since
    1970; `is_duplicate` says that it had been published before, and `visible_ns` is then None
    unless it is still delayed."""

    message_id: MessageId
    visible_ns: int | None = None
    is_duplicate: bool = False


def published_before(
    work: Workspace, queue: QueueName, message_id: MessageId, fd: int
) -> Published:
    """Return the answer for a message that exists already; `fd` is its file."""
    status, visible_ns = os.fstat(fd), None
    if work.spool.inode(Folder.DELAY, file_name(queue, message_id)) == status.st_ino:
        is_delayed = state_in(Folder.DELAY, seal_of(work.files, fd)) is State.DELAYED
        visible_ns = due_ns(status, 0) if is_delayed else None
    return Published(message_id, visible_ns, is_duplicate=True)


def publish(work: Workspace, queue: QueueName, draft: Draft) -> Operation[Published]:
    """Put a message at the end of its queue, or into `delay`. Only `own_id` does it under a
    producer's own id.

    On return it survives a power cut. A crash before the link leaves nothing; after it, a whole
    file in `new` that a sweep delivers, or one that fails its seal. A failed sync takes the name
    back. Raises QueueNotFound, QueueIsFifo, StoreUnavailable, PropertiesUnsupported.
    """
    refuse_fifo(work, queue)
    yield from hold(work, queue)
    work.require_room(draft.length + len(draft.trailer) if draft.body is not None else 0)
    if not work.knows_space(queue):
        yield from find_space(work, queue)
    if draft.trailer:
        work.spool.use_long_seals()
    is_late = False
    work.undelivered[queue] += 1
    try:
        message_id, published_ns = position = work.ids.next_position(draft.message_id)
        name = file_name(queue, message_id)
        visible_ns = visible_from(work, queue, draft)
        chain = linking(work, draft, name, published_ns, visible_ns)
        results = check((yield FileCalls(work.files, chain)))
        fd = draft.fd if draft.body is None else results[0]
        is_own, stays_open = draft.message_id is not None, draft.body is None
        linked = Linked(queue, position, visible_ns, fd, is_own, stays_open)
        try:
            yield Unsynced((fd,), (), False, LINKED_IN_NEW)
        except BaseException as error:
            try:
                if isinstance(error, StoreUnavailable):
                    work.spool.unlink(Folder.NEW, name)
            finally:
                let_go(work, linked)
            raise
        work.counts.of(queue).published += 1
        try:
            is_late = not (yield from deliver(work, linked))
        except QueueLocked:
            is_late = not (yield from deliver_once_unlocked(work, linked))
        return Published(message_id, visible_ns)
    finally:
        work.end_delivery(queue, 1)
        if is_late:
            # The lock is free by now: a sweep passes over what another process holds.
            work.request_sweep()


def linking(
    work: Workspace, draft: Draft, name: str, published_ns: int, visible_ns: int | None
) -> Chain:
    """Return the calls that give a new message its name in `new`."""
    spool, fd = work.spool, draft.fd
    opening: Chain = ()
    if draft.body is not None:
        data = draft.body + draft.trailer if draft.trailer else draft.body
        opening = ((OPEN_UNNAMED, spool.fd(_NEW), spool.file_mode), (WRITE, ~0, data))
        fd = ~0
    sealed = draft.seal(published_ns) if spool.has_seals else None
    calls = opening + sealing(fd, sealed, draft.content_type, visible_ns)
    if not spool.has_seals:
        # Without a seal nothing would tell later that a body is torn, so it is durable before it
        # has a name.
        calls += ((SYNC, fd),)
    # The lock is held until delivery, so that no sweep takes the file for a crash's leftover.
    return (*calls, (LOCK, fd), spool.link_call(fd, _NEW, name))


def check_publish(
    work: Workspace, queue: QueueName, messages: int = 1, length: int = 0
) -> Operation[None]:
    """Raise what a publish of this many new messages and of `length` bytes would raise now, before
    a body is read: QueueNotFound, QueueIsFifo, StoreUnavailable."""
    work.require_queue(queue)
    refuse_fifo(work, queue)
    work.floor.require(length)
    if messages and not work.knows_space(queue, messages):
        yield from find_space(work, queue, messages)


def visible_from(work: Workspace, queue: QueueName, draft: Draft) -> int | None:
    """Return when a message that is published now becomes visible, as `visible_after` does."""
    hidden_ns = delay_ns(work, queue) if draft.delay_ns is None else draft.delay_ns
    return visible_after(work, hidden_ns)


def visible_after(work: Workspace, hidden_ns: int) -> int | None:
    """Return when a message that is published now and hidden for `hidden_ns` becomes visible, in ns
    since 1970, rounded to what the file system can keep; None for at once."""
    return round_up(work.clock_ns() + hidden_ns, work.granularity_ns) if hidden_ns else None


def try_to_hold(work: Workspace, queue: QueueName) -> bool:
    """Hold the queue, which saves each move a look at it. Returns False if there is no such queue,
    or another process has it to itself."""
    try:
        work.hold_queue(queue)
    except (QueueNotFound, QueueLocked):
        return False
    return True
