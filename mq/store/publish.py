"""Publish: an unnamed file, sealed, written, locked, linked into `new`, then delivered."""

from __future__ import annotations

import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, Position, QueueName, file_name, queue_path
from mq.spool.message import Sum
from mq.spool.seal import NO_LEASE, Seal, round_up, seal_new
from mq.spool.trailer import NO_TRAILER
from mq.store.context import Workspace, no_queue
from mq.store.holding import hold
from mq.store.indexing import find_space
from mq.store.rules import delay_ns

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Draft:
    """A message to publish: its body of `length` bytes with that CRC-32, in memory or in `fd`, an
    unnamed file that is written and synced, and open until it is published or refused. Nobody
    changes it; a frozen one takes three times as long to make.

    `message_id` is the producer's own id, None for a new one; `delay_ns` is how long the message
    is hidden from its publication on, None if the queue says. `trailer` are its properties, as
    `mq.spool.trailer.pack_trailer` makes them; in `fd` they are behind the body already.
    """

    length: int
    crc32: int
    content_type: str | None = None
    body: bytes | None = None
    fd: int = -1
    message_id: MessageId | None = None
    delay_ns: int | None = None
    trailer: bytes = NO_TRAILER

    def sum(self) -> Sum:
        return Sum(self.length, self.crc32, *self._sum_of_trailer())

    def seal(self, published_ns: int) -> Seal:
        """That of the message in the moment of its publication."""
        if not self.trailer:  # as nearly every message
            return Seal(self.length, self.crc32, published_ns, 0, NO_LEASE)
        behind = self._sum_of_trailer()
        return Seal(self.length, self.crc32, published_ns, 0, NO_LEASE, *behind)

    def _sum_of_trailer(self) -> tuple[int, int]:
        return (len(self.trailer), zlib.crc32(self.trailer)) if self.trailer else (0, 0)


class Published(NamedTuple):
    """A message that is published. `visible_ns` is when a delayed one becomes visible, in ns since
    1970; `is_duplicate` says that it had been published before."""

    message_id: MessageId
    visible_ns: int | None = None
    is_duplicate: bool = False


def publish(work: Workspace, queue: QueueName, draft: Draft) -> Operation[Published]:
    """Put a message at the end of its queue, or into `delay`; under the producer's own id only
    within `mq.store.own_id`.

    On return it survives a power cut. A crash before the link leaves nothing; after it, a whole
    file in `new` that a sweep delivers, or one that fails its seal. A failed sync takes the name
    back. Raises QueueNotFound, StoreUnavailable, PropertiesUnsupported.
    """
    yield from hold(work, queue)
    work.require_room(draft.length + len(draft.trailer) if draft.body is not None else 0)
    if not work.has_space(queue):
        yield from find_space(work, queue)
    if draft.trailer:
        work.spool.use_long_seals()
    files, new = work.files, work.spool.fd(Folder.NEW)
    fd = files.open_unnamed(new, work.spool.file_mode) if draft.body is not None else draft.fd
    is_late = False
    work.undelivered[queue] += 1
    try:
        if draft.body is not None:
            files.write(fd, draft.body + draft.trailer)
        message_id, published_ns = work.ids.next_position(draft.message_id)
        visible_ns = seal(work, queue, fd, draft, published_ns)
        if not work.spool.has_seals:
            # Nothing would tell a torn body later: it is durable before it has a name.
            files.sync(fd)
        # Held until delivery, so that no sweep takes the file for a crash's leftover.
        files.lock(fd)
        name = file_name(queue, message_id)
        work.spool.link(fd, Folder.NEW, name)
        try:
            yield Unsynced((fd,), (Folder.NEW,))
        except StoreUnavailable:
            work.spool.unlink(Folder.NEW, name)
            raise
        work.counts.of(queue).published += 1
        is_late = not _deliver(work, queue, Position(message_id, published_ns), visible_ns)
        return Published(message_id, visible_ns)
    finally:
        work.undelivered[queue] -= 1
        if draft.body is not None:
            files.close(fd)
        else:
            with suppress(OSError):  # else it ends when the file is closed, just after this
                files.unlock(fd)
        if is_late:
            # Not before the lock is free: a sweep passes over what somebody holds.
            work.request_sweep()


def check_publish(
    work: Workspace, queue: QueueName, messages: int = 1, length: int = 0
) -> Operation[None]:
    """Whether a publish of so many messages, and bytes, would be taken now; asked before a body is
    read. Raises QueueNotFound, StoreUnavailable."""
    work.require_queue(queue)
    work.floor.require(length)
    if not work.has_space(queue, messages):
        yield from find_space(work, queue, messages)


def seal(work: Workspace, queue: QueueName, fd: int, draft: Draft, published_ns: int) -> int | None:
    """Write what a file must say before it has a name; returns when a delayed one is due."""
    sealed = draft.seal(published_ns) if work.spool.has_seals else None
    visible_ns = visible_from(work, queue, draft)
    seal_new(work.files, fd, sealed, draft.content_type, visible_ns)
    return visible_ns


def visible_from(work: Workspace, queue: QueueName, draft: Draft) -> int | None:
    """When a message that is published now becomes visible, in ns since 1970, as the file system
    can keep it; None for at once."""
    hidden_ns = delay_ns(work, queue) if draft.delay_ns is None else draft.delay_ns
    return round_up(work.clock_ns() + hidden_ns, work.granularity_ns) if hidden_ns else None


def _deliver(work: Workspace, queue: QueueName, position: Position, visible_ns: int | None) -> bool:
    """The message is durable in `new`. False if it cannot go on now: a sweep delivers it."""
    message_id, published_ns = position
    name = file_name(queue, message_id)
    target, target_name = Folder.QUEUES, queue_path(queue, message_id)
    if visible_ns is not None and visible_ns > work.clock_ns():
        target, target_name = Folder.DELAY, name
    try:
        moved = work.spool.move(Folder.NEW, name, target, target_name)
    except OSError as error:
        log.error("delivery failed", name=name, error=str(error))
        return False
    if not moved:
        if work.spool.move(Folder.NEW, name, Folder.REMOVE, name):
            # The queue was deleted since the round began, and so is the message.
            raise no_queue(queue)
    elif target is Folder.QUEUES:
        work.ready.add(queue, message_id, published_ns)
    return True
