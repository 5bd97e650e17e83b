"""Look into the folders and change nothing: no lock, no lease, no stamp, no move."""

from __future__ import annotations

import errno
import io
import os
import stat
import time
import zlib
from collections import Counter
from collections.abc import Iterator

from mq.config import DEFAULT_CONTENT_TYPE, SMALL_BODY_BYTES
from mq.ctl.access import Counts, Message, Readable
from mq.errors import MessageNotFound
from mq.lifecycle import Folder
from mq.names import (
    MessageId,
    QueueName,
    file_name,
    id_of_key,
    is_queue_name,
    parse_file_name,
    queue_path,
    time_of_key,
)
from mq.ready import list_queue
from mq.spool.files import Files
from mq.spool.folders import Spool
from mq.spool.message import NO_LEASE, Held, due_ns
from mq.store.queues import count_waiting, is_leased
from mq.store.workspace import no_queue
from mq.web.times import rfc3339

_PLACES = (Folder.QUEUES, Folder.DELAY, Folder.QUEUES)
"""A redelivery may pass between two looks."""

_NS = 1_000_000_000


def count_queues(spool: Spool) -> list[Counts]:
    """Every queue, by name. Lists every folder once."""
    waiting = Counter(
        (parsed[0], is_leased(spool, name))
        for name in spool.names(Folder.DELAY)
        if (parsed := parse_file_name(name)) is not None
    )
    names = sorted(QueueName(name) for name in spool.names(Folder.QUEUES) if is_queue_name(name))
    counted = (_count(spool, name, (waiting[name, True], waiting[name, False])) for name in names)
    return [counts for counts in counted if counts is not None]


def count_queue(spool: Spool, queue: QueueName) -> Counts:
    """Raises QueueNotFound."""
    counts = _count(spool, queue, count_waiting(spool, queue))
    if counts is None:
        raise no_queue(queue)
    return counts


def _count(spool: Spool, queue: QueueName, waiting: tuple[int, int]) -> Counts | None:
    """`waiting` are the leased and the delayed messages; None if there is no such queue."""
    listing = list_queue(spool, queue, lambda _: False)
    if listing is None:
        return None
    age = None
    if listing.keys:
        age = max(time.time_ns() - time_of_key(listing.keys[0]), 0) / _NS
    return Counts(queue, len(listing.keys), *waiting, age)


def oldest_messages(spool: Spool, queue: QueueName, limit: int) -> Iterator[Message]:
    """The first `limit` ready ones. Raises QueueNotFound."""
    listing = list_queue(spool, queue, lambda _: False)
    if listing is None:
        raise no_queue(queue)
    left = limit
    for key in listing.keys:
        if left == 0:
            return
        message = _look_at(spool, Folder.QUEUES, queue, MessageId(id_of_key(key)))
        if message is not None:
            yield message
            left -= 1


def find_message(spool: Spool, queue: QueueName, message_id: MessageId) -> Message:
    """Ready, leased or delayed. Raises QueueNotFound, MessageNotFound."""
    if spool.status(Folder.QUEUES, queue) is None:
        raise no_queue(queue)
    for folder in _PLACES:
        message = _look_at(spool, folder, queue, message_id)
        if message is not None:
            return message
    raise MessageNotFound(f"queue {queue} has no message {message_id}; it may have been removed")


def _look_at(
    spool: Spool, folder: Folder, queue: QueueName, message_id: MessageId
) -> Message | None:
    """None if it is not there, or is no file."""
    name = (queue_path if folder is Folder.QUEUES else file_name)(queue, message_id)
    held = _open(spool, folder, name)
    if held is None:
        return None
    try:
        return _describe(spool.files, folder, message_id, held)
    except BaseException:
        held.close()
        raise


def _open(spool: Spool, folder: Folder, name: str) -> Held | None:
    """Open, but not locked: nothing here needs the lock, and a receiver would pass it over."""
    try:
        fd = spool.files.open_message(spool.fd(folder), name)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            return None
        raise
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode):
        return Held(spool.files, name, fd, status)
    spool.files.close(fd)
    return None


def _describe(files: Files, folder: Folder, message_id: MessageId, held: Held) -> Message:
    """The message keeps the file open, or has read it."""
    seal, length = held.seal, held.status.st_size
    is_leased = seal is None or seal.lease != NO_LEASE
    state = "ready" if folder is Folder.QUEUES else "leased" if is_leased else "delayed"
    has_lease = is_leased and (seal is not None or folder is Folder.DELAY)
    due = rfc3339(due_ns(held.status, 0)) if folder is Folder.DELAY else None
    content_type = held.content_type() or DEFAULT_CONTENT_TYPE
    is_damaged = seal is not None and seal.length != length
    body: Readable
    if length <= SMALL_BODY_BYTES:
        data = files.read(held.fd, SMALL_BODY_BYTES)
        is_damaged = is_damaged or (seal is not None and seal.crc32 != zlib.crc32(data))
        held.close()
        body = io.BytesIO(data)
    else:
        body = io.FileIO(held.fd)
    return Message(
        message_id=message_id,
        state=state,
        lease=f"{held.lease:016x}" if has_lease else None,
        receive_count=None if seal is None else seal.receive_count,
        content_type=content_type,
        published_at=rfc3339(held.status.st_mtime_ns if seal is None else seal.published_ns),
        visible_at=due,
        length=length,
        body=body,
        is_damaged=is_damaged,
    )
