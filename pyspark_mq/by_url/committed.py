"""What waits in a staging to be published, and its messages as a client sends them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from mq.client import NewMessage
from mq.config import KIB, SECOND_NS
from mq.disk.calls import (
    ATTRIBUTE,
    CHAINS_AT_ONCE,
    CLOSE,
    OPEN_MESSAGE,
    READ,
    STATUS,
    Chain,
    Outcome,
    run,
)
from mq.disk.status import AnyStatus, Status
from mq.ids import id_of_key
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, parse_file_name, queue_path
from mq.spool.message.held import Opened, content_type_of, read_content, seal_of
from mq.spool.message.seal import SEAL_ATTRIBUTE, TYPE_ATTRIBUTE, Seal, due_ns
from mq.spool.message.trailer import Content, split
from mq.spool.queue.listing import list_queue
from mq.spool.spool import Spool

_READ_AT_ONCE_BYTES = 64 * KIB
"""A larger message is read by itself, so that not many of them are in memory together."""


class Committed(NamedTuple):
    """A committed message, and where it lies."""

    folder: Folder
    name: str
    message_id: MessageId


def delayed_messages(spool: Spool) -> dict[QueueName, list[Committed]]:
    """Return the messages in `delay`, by queue."""
    found: dict[QueueName, list[Committed]] = {}
    for name in sorted(spool.names(Folder.DELAY)):
        parsed = parse_file_name(name)
        if parsed is not None:
            found.setdefault(parsed[0], []).append(Committed(Folder.DELAY, name, parsed[1]))
    return found


def ready_messages(spool: Spool, queue: QueueName) -> list[Committed]:
    """Return the messages of a queue, in order."""
    listing = list_queue(spool, queue)
    ids = [MessageId(id_of_key(key)) for key in listing.keys] if listing is not None else []
    return [Committed(Folder.QUEUES, queue_path(queue, each), each) for each in ids]


def read_committed(
    spool: Spool, waiting: Iterable[Committed]
) -> Iterator[tuple[Committed, NewMessage | None]]:
    """Yield each message with what is to be published, or with None if it is damaged. One that is
    gone is left out: another process has published it. Raises OSError."""
    left = iter(waiting)
    while some := list(islice(left, CHAINS_AT_ONCE)):
        outcomes = run(spool.files, [_reading(spool, committed) for committed in some])
        for committed, outcome in zip(some, outcomes, strict=True):
            message = _message_in(committed, outcome)
            if message is not None:
                yield committed, message
                continue
            # It is large, gone, damaged or hard to read.
            try:
                yield committed, _read_alone(spool, committed)
            except FileNotFoundError:
                continue


def _reading(spool: Spool, committed: Committed) -> Chain:
    try:
        fd, bare, _keeper = spool.at(committed.folder, committed.name)
    except FileNotFoundError:
        return ()
    return (
        (OPEN_MESSAGE, fd, bare),
        (STATUS, ~0),
        (READ, ~0, 1, _READ_AT_ONCE_BYTES),
        (ATTRIBUTE, ~0, SEAL_ATTRIBUTE),
        (ATTRIBUTE, ~0, TYPE_ATTRIBUTE),
        (CLOSE, ~0),
    )


def _message_in(committed: Committed, outcome: Outcome) -> NewMessage | None:
    results, code = outcome
    if code or not results or results[2] is None:
        return None
    _, status, data, seal, kind, _ = results
    content = split(Seal.unpack(seal), data)
    if content is None:
        return None
    return _new_message(committed, content, content_type_of(kind), Status._make(status))


def _read_alone(spool: Spool, committed: Committed) -> NewMessage | None:
    """Read a message of any size. Returns None if it is damaged. Raises FileNotFoundError if it is
    gone."""
    files = spool.files
    folder_fd, bare, _keeper = spool.at(committed.folder, committed.name)
    fd = files.open_to_look(folder_fd, bare)
    with Opened(files, committed.name, fd, os.fstat(fd), seal_of(files, fd)) as opened:
        content = read_content(opened, files)
        if content is None:
            return None
        return _new_message(committed, content, opened.content_type(), opened.status)


def _new_message(
    committed: Committed, content: Content, content_type: str | None, status: AnyStatus
) -> NewMessage:
    delay = 0.0
    if committed.folder is Folder.DELAY:
        delay = max(0.0, (due_ns(status, 0) - time.time_ns()) / SECOND_NS)
    return NewMessage(content.body, content_type, delay, committed.message_id, content.properties)
