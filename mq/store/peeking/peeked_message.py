"""A message that is looked at: its file is found and read, without a lock. Blocking."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mq.config import SMALL_BODY_BYTES
from mq.disk.files import Files
from mq.lifecycle import Folder, State
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.properties import NO_PROPERTIES, Properties
from mq.spool.disk_errors import FAULTS_OF_ONE_MESSAGE
from mq.spool.message.burial import Burial, burial_in
from mq.spool.message.checksum import measure
from mq.spool.message.held import NO_FD, Opened, look_at
from mq.spool.message.seal import NO_LEASE, due_ns, state_in
from mq.spool.message.trailer import read_long, split
from mq.spool.spool import Spool
from mq.store.answer_memory import AnswerRoom, Share

_PLACES = (Folder.QUEUES, Folder.DELAY, Folder.QUEUES, Folder.DELAY)
"""A receive and a redelivery may pass between two looks."""

_PASSED_OVER = {*FAULTS_OF_ONE_MESSAGE, errno.EIO, errno.ESTALE}
"""Errors of a file that cannot be shown, or that another host has just removed."""


@dataclass(frozen=True, slots=True)
class PeekedMessage:
    """A message as it was found: its body in memory, or `fd`, open at it, for the caller to close.

    `state` is ready, leased or delayed; `file_length` is that of body and properties, in bytes.
    Times are in ns since 1970. `visible_ns` is None for a ready message, `lease` if there is none,
    `receive_count` if there is no seal, and `burial` unless it is a dead letter.
    """

    message_id: MessageId
    state: State
    length: int
    content_type: str | None
    properties: Properties
    lease: int | None
    receive_count: int | None
    published_ns: int
    visible_ns: int | None
    is_damaged: bool
    body: bytes | None
    burial: Burial | None
    fd: int = NO_FD
    file_length: int = 0

    def close(self, files: Files) -> None:
        if self.fd != NO_FD:
            files.close(self.fd)


def close_peeked(files: Files, messages: Iterable[PeekedMessage]) -> None:
    for each in messages:
        each.close(files)


def peek_ready(spool: Spool, queue: QueueName, ids: Iterable[MessageId]) -> Iterator[PeekedMessage]:
    """Yield those of `ids` that are ready. One that alone cannot be read is passed over. Blocking.
    Raises OSError."""
    for message_id in ids:
        peeked = peek_in(spool, Folder.QUEUES, queue, message_id)
        if peeked is not None:
            yield peeked


def peek_in(
    spool: Spool, folder: Folder, queue: QueueName, message_id: MessageId
) -> PeekedMessage | None:
    """Return that message, or None if it is not in that folder, or if it alone cannot be read.
    Blocking. Raises OSError."""
    try:
        return _peek(spool, folder, queue, message_id)
    except OSError as error:
        if error.errno in _PASSED_OVER:
            return None
        raise


def peek_anywhere(spool: Spool, queue: QueueName, message_id: MessageId) -> PeekedMessage | None:
    """Return a message, ready, leased or delayed, or None if it is in no such place. Blocking: a
    large body is read to its end. Raises OSError."""
    for folder in _PLACES:
        peeked = _peek(spool, folder, queue, message_id)
        if peeked is not None:
            return peeked
    return None


def _peek(
    spool: Spool, folder: Folder, queue: QueueName, message_id: MessageId
) -> PeekedMessage | None:
    """Return a message, or None if it is gone, or is not a message: not a file, or another
    user's."""
    name = (queue_path if folder is Folder.QUEUES else file_name)(queue, message_id)
    opened = look_at(spool, folder, name)
    if opened is None:
        return None
    keeps_open = False
    try:
        peeked = _describe(spool.files, folder, queue, message_id, opened)
        keeps_open = peeked.fd != NO_FD
        return peeked
    finally:
        if not keeps_open:
            opened.close()


def _describe(
    files: Files, folder: Folder, queue: QueueName, message_id: MessageId, opened: Opened
) -> PeekedMessage:
    seal, size = opened.seal, opened.status.st_size
    has_lease = folder is Folder.DELAY if seal is None else seal.lease != NO_LEASE
    content_type, burial = opened.type_and_burial()
    body, properties = _read(files, opened)
    # The length is that of a damaged file too: as much as there is, and all of it if nothing should
    # follow the body.
    length = min(opened.length, size) if seal is not None and seal.trailer_length else size
    return PeekedMessage(
        message_id=message_id,
        state=state_in(folder, seal),
        length=length,
        content_type=content_type,
        properties=properties or NO_PROPERTIES,
        lease=opened.lease if has_lease else None,
        receive_count=None if seal is None else seal.receive_count,
        published_ns=opened.published_ns(message_id),
        visible_ns=due_ns(opened.status, 0) if folder is Folder.DELAY else None,
        is_damaged=properties is None,
        body=None if body is None else body[:length],
        burial=burial_in(burial, queue),
        fd=opened.fd if body is None else NO_FD,
        file_length=size,
    )


def _read(files: Files, opened: Opened) -> tuple[bytes | None, Properties | None]:
    """Return all of a small file, or None for a large one; and the properties, or None if it fails
    its seal. Raises OSError if it cannot be read to its end."""
    seal = opened.seal
    if opened.status.st_size > SMALL_BODY_BYTES:
        properties = None if seal is None else read_long(files, opened.fd, seal)
        if properties is None:
            # What is damaged is shown, and what cannot be read is not: the others are.
            measure(files, opened.fd)
        return None, NO_PROPERTIES if seal is None else properties
    data = files.read(opened.fd, SMALL_BODY_BYTES)
    content = split(seal, data)
    return data, None if content is None else content.properties


def gather(
    files: Files, messages: Iterable[PeekedMessage], limit: int, share: Share | None
) -> list[PeekedMessage]:
    """Return the first `limit` of them, while there is memory for their bodies, up to
    MAX_BODIES_BYTES, but at least one. Blocking, for a worker."""
    peeked: list[PeekedMessage] = []
    room = AnswerRoom(share=share)
    try:
        for message in messages:
            if not room.takes(message.file_length):
                message.close(files)
                break
            peeked.append(message)
            if len(peeked) == limit:
                break
    except BaseException:
        close_peeked(files, peeked)
        raise
    if share is not None:
        share.hold_bodies(room.used)
    return peeked
