"""Peek: look at messages and change nothing: no lock, no lease, no stamp, no move."""

from __future__ import annotations

import errno
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mq.config import SMALL_BODY_BYTES
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.operation import Operation
from mq.spool.files import Files
from mq.spool.folders import Spool
from mq.spool.listing import place_of
from mq.spool.message import NO_LEASE, Held, due_ns, measure
from mq.store.workspace import Retry, Workspace, no_message

_PLACES = (Folder.QUEUES, Folder.DELAY, Folder.QUEUES, Folder.DELAY)
"""A receive and a redelivery may pass between two looks."""

_NO_MESSAGE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO}


@dataclass(frozen=True, slots=True)
class Peeked:
    """A message as it lies there: its body in memory, or `fd`, open at it, for the caller to close.

    `state` is ready, leased or delayed. Times in ns since 1970; `visible_ns` is None for a ready
    one, `lease` without one, `receive_count` where there is no seal.
    """

    message_id: MessageId
    state: str
    length: int
    content_type: str | None
    lease: int | None
    receive_count: int | None
    published_ns: int
    visible_ns: int | None
    is_damaged: bool
    body: bytes | None
    fd: int = -1

    def close(self, files: Files) -> None:
        if self.fd >= 0:
            files.close(self.fd)


def find_oldest(
    work: Workspace, queue: QueueName, limit: int, after: MessageId | None
) -> Operation[list[MessageId] | Retry]:
    """The first `limit` of a queue, or of those behind `after`, as its index knows them. Raises
    QueueNotFound, MessageNotFound."""
    work.ready.drain()
    ready = work.loaded_index(queue)
    if ready is None:
        return Retry.LIST
    if after is None:
        ids = ready.oldest(limit)
    else:
        place = ready.key(after) or place_of(work.spool, queue, after)
        if place is None:
            raise no_message(queue, after)
        ids = ready.behind(place, limit)
    return ids if ids or not work.may_have_changed(queue, ready) else Retry.LIST
    yield


def drop_gone(work: Workspace, queue: QueueName, ids: Iterable[MessageId]) -> Operation[None]:
    """Take out of the index what a peek did not find."""
    ready = work.ready.get(queue)
    if ready is not None:
        for message_id in ids:
            if not work.spool.exists(Folder.QUEUES, queue_path(queue, message_id)):
                ready.discard(message_id)
    return
    yield


def peek_ready(spool: Spool, queue: QueueName, ids: Iterable[MessageId]) -> Iterator[Peeked]:
    """Those of `ids` that are ready. One that cannot be read is passed over. Blocking."""
    for message_id in ids:
        try:
            peeked = _peek(spool, Folder.QUEUES, queue, message_id)
        except OSError:
            continue
        if peeked is not None:
            yield peeked


def peek_up_to(
    spool: Spool, queue: QueueName, ids: Iterable[MessageId], max_bytes: int
) -> list[Peeked]:
    """Those of `ids` that are ready, while their bodies have `max_bytes` together; at least one.
    Blocking, for a worker."""
    peeked: list[Peeked] = []
    room = max_bytes
    for message in peek_ready(spool, queue, ids):
        room -= message.length
        if peeked and room < 0:
            message.close(spool.files)
            break
        peeked.append(message)
    return peeked


def peek_at(spool: Spool, queue: QueueName, message_id: MessageId) -> Peeked | None:
    """That message: ready, leased or delayed; None if it is in no such place. Blocking: a large
    body is read to its end. Raises OSError."""
    for folder in _PLACES:
        peeked = _peek(spool, folder, queue, message_id)
        if peeked is not None:
            return peeked
    return None


def _peek(spool: Spool, folder: Folder, queue: QueueName, message_id: MessageId) -> Peeked | None:
    """None if it is not there, or is no file."""
    name = (queue_path if folder is Folder.QUEUES else file_name)(queue, message_id)
    held = _open(spool, folder, name)
    if held is None:
        return None
    keeps_open = False
    try:
        peeked = _describe(spool.files, folder, message_id, held)
        keeps_open = peeked.fd >= 0
        return peeked
    finally:
        if not keeps_open:
            held.close()


def _open(spool: Spool, folder: Folder, name: str) -> Held | None:
    """Open, but not locked: nothing here needs the lock, and a receiver would pass it over."""
    try:
        fd = spool.files.open_to_look(spool.fd(folder), name)
    except OSError as error:
        if error.errno in _NO_MESSAGE:
            return None
        raise
    held = None
    try:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode):
            held = Held(spool.files, name, fd, status)
        return held
    finally:
        if held is None:
            spool.files.close(fd)


def _describe(files: Files, folder: Folder, message_id: MessageId, held: Held) -> Peeked:
    seal, length = held.seal, held.status.st_size
    is_leased = seal is None or seal.lease != NO_LEASE
    has_lease = is_leased and (seal is not None or folder is Folder.DELAY)
    content_type = held.content_type()
    body = files.read(held.fd, SMALL_BODY_BYTES) if length <= SMALL_BODY_BYTES else None
    found = measure(files, held.fd) if body is None else (len(body), zlib.crc32(body))
    return Peeked(
        message_id=message_id,
        state="ready" if folder is Folder.QUEUES else "leased" if is_leased else "delayed",
        length=length,
        content_type=content_type,
        lease=held.lease if has_lease else None,
        receive_count=None if seal is None else seal.receive_count,
        published_ns=held.status.st_mtime_ns if seal is None else seal.published_ns,
        visible_ns=due_ns(held.status, 0) if folder is Folder.DELAY else None,
        is_damaged=seal is not None and found != (seal.length, seal.crc32),
        body=body,
        fd=held.fd if body is None else -1,
    )
