"""Publish: an unnamed file, sealed, written, locked, linked into `new`, then delivered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import structlog

from mq.barrier import Unsynced
from mq.config import DEFAULT_CONTENT_TYPE
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.operation import Operation
from mq.spool.message import NO_LEASE, SEAL_ATTRIBUTE, TYPE_ATTRIBUTE, Seal, round_up
from mq.store.workspace import Retry, Workspace, no_queue

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Draft:
    """A message to publish: its body of `length` bytes with that CRC-32, in memory or in `fd`, an
    unnamed file that is written and synced and stays the caller's to close. Nobody changes it; a
    frozen one takes three times as long to make.

    `message_id` is the producer's own id, None for a new one; `delay_ns` is how long the message
    is hidden from its publication on.
    """

    length: int
    crc32: int
    content_type: str | None = None
    body: bytes | None = None
    fd: int = -1
    message_id: MessageId | None = None
    delay_ns: int = 0


class Published(NamedTuple):
    """A message that is published. `visible_ns` is when a delayed one becomes visible, in ns since
    1970; `is_duplicate` says that it had been published before."""

    message_id: MessageId
    visible_ns: int | None = None
    is_duplicate: bool = False


def publish(work: Workspace, queue: QueueName, draft: Draft) -> Operation[Published | Retry]:
    """Put a message at the end of its queue, or into `delay`; under the producer's own id only
    within `mq.store.own_id`.

    On return it survives a power cut. A crash before the link leaves nothing; after it, a whole
    file in `new` that a sweep delivers, or one that fails its seal. A failed sync takes the name
    back. Retry.LIST if the limit of the queue cannot be compared yet. Raises QueueNotFound,
    StoreUnavailable.
    """
    work.hold_queue(queue)
    work.require_room()
    if not work.has_space(queue):
        return Retry.LIST
    files, new = work.files, work.spool.fd(Folder.NEW)
    fd = files.open_unnamed(new, work.spool.file_mode) if draft.body is not None else draft.fd
    is_late = False
    work.undelivered[queue] += 1
    try:
        if draft.body is not None:
            files.write(fd, draft.body)
        message_id = draft.message_id or work.ids.next()
        visible_ns = seal(work, fd, draft)
        if not work.spool.has_seals:
            # Nothing would tell a torn body later: it is durable before it has a name.
            files.sync(fd)
        # Held until delivery, so that no sweep takes the file for a crash's leftover.
        files.lock(fd)
        name = file_name(queue, message_id)
        files.link(fd, new, name)
        try:
            yield Unsynced((fd,), (Folder.NEW,))
        except StoreUnavailable:
            files.unlink(new, name)
            raise
        work.counts.published += 1
        is_late = not _deliver(work, queue, message_id, visible_ns)
        return Published(message_id, visible_ns)
    finally:
        work.undelivered[queue] -= 1
        if draft.body is not None:
            files.close(fd)
        else:
            files.unlock(fd)
        if is_late:
            # Not before the lock is free: a sweep passes over what somebody holds.
            work.request_sweep()


def check_publish(work: Workspace, queue: QueueName, messages: int = 1) -> Operation[Retry | None]:
    """Whether a publish would be taken now; asked before a body is read. Retry.LIST as above.
    Raises QueueNotFound, StoreUnavailable."""
    work.require_queue(queue)
    work.require_room()
    return None if work.has_space(queue, messages) else Retry.LIST
    yield


def seal(work: Workspace, fd: int, draft: Draft) -> int | None:
    """Write what a file must say before it has a name; returns when a delayed one is due.

    The stamp comes last: the link sets ctime, so an mtime after that tells whoever finds the file
    in `new` until when it is hidden.
    """
    if work.spool.has_seals:
        attributes = Seal(draft.length, draft.crc32, work.clock_ns(), 0, NO_LEASE)
        work.files.set_attribute(fd, SEAL_ATTRIBUTE, attributes.pack())
        if draft.content_type not in (None, DEFAULT_CONTENT_TYPE):
            work.files.set_attribute(fd, TYPE_ATTRIBUTE, draft.content_type.encode("latin-1"))
    if not draft.delay_ns:
        return None
    visible_ns = round_up(work.clock_ns() + draft.delay_ns, work.granularity_ns)
    work.files.stamp(fd, visible_ns)
    return visible_ns


def _deliver(
    work: Workspace, queue: QueueName, message_id: MessageId, visible_ns: int | None
) -> bool:
    """The message is durable in `new`. False if it cannot go on now: a sweep delivers it."""
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
            # The queue was deleted since the batch began, and so is the message.
            raise no_queue(queue)
    elif target is Folder.QUEUES:
        work.ready.add(queue, message_id)
    return True
