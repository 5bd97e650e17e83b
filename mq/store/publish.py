"""Publish: an unnamed file, sealed, written, locked, linked into `new`, then delivered."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from mq.barrier import Unsynced
from mq.commit import Operation
from mq.config import DEFAULT_CONTENT_TYPE
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.spool.message import NO_LEASE, SEAL_ATTRIBUTE, TYPE_ATTRIBUTE, Seal
from mq.store.workspace import Workspace, no_queue

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to publish: its body of `length` bytes with that CRC-32, in memory or in `fd`, an
    unnamed file that is written and synced and stays the caller's to close."""

    length: int
    crc32: int
    content_type: str | None = None
    body: bytes | None = None
    fd: int = -1


def publish(work: Workspace, queue: QueueName, draft: Draft) -> Operation[MessageId]:
    """Put a message at the end of its queue; returns its new id.

    On return it survives a power cut. A crash before the link leaves nothing; after it, a whole
    file in `new` that a sweep delivers, or one that fails its seal. A failed sync takes the name
    back. Raises QueueNotFound, StoreUnavailable.
    """
    work.hold_queue(queue)
    work.require_room()
    files, new = work.files, work.spool.fd(Folder.NEW)
    fd = files.open_unnamed(new, work.spool.file_mode) if draft.body is not None else draft.fd
    is_late = False
    try:
        if draft.body is not None:
            files.write(fd, draft.body)
        message_id = work.ids.next()
        _seal(work, fd, draft)
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
        is_late = not _deliver(work, queue, message_id)
        return message_id
    finally:
        if draft.body is not None:
            files.close(fd)
        else:
            files.unlock(fd)
        if is_late:
            # Not before the lock is free: a sweep passes over what somebody holds.
            work.request_sweep()


def check_publish(work: Workspace, queue: QueueName) -> Operation[None]:
    """Whether a publish would be taken now; asked before a body is read. Raises QueueNotFound,
    StoreUnavailable."""
    work.require_queue(queue)
    work.require_room()
    return
    yield


def _seal(work: Workspace, fd: int, draft: Draft) -> None:
    if not work.spool.has_seals:
        return
    seal = Seal(draft.length, draft.crc32, work.clock_ns(), 0, NO_LEASE)
    work.files.set_attribute(fd, SEAL_ATTRIBUTE, seal.pack())
    if draft.content_type not in (None, DEFAULT_CONTENT_TYPE):
        work.files.set_attribute(fd, TYPE_ATTRIBUTE, draft.content_type.encode("latin-1"))


def _deliver(work: Workspace, queue: QueueName, message_id: MessageId) -> bool:
    """The message is durable in `new`. False if it cannot go on now: a sweep delivers it."""
    name = file_name(queue, message_id)
    try:
        moved = work.spool.move(Folder.NEW, name, Folder.QUEUES, queue_path(queue, message_id))
    except OSError as error:
        log.error("delivery failed", name=name, error=str(error))
        return False
    if moved:
        work.ready.add(queue, message_id)
    elif work.spool.move(Folder.NEW, name, Folder.REMOVE, name):
        # The queue was deleted since the batch began, and so is the message.
        raise no_queue(queue)
    return True
