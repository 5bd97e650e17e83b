"""One look at a queue's folder: the messages in it, by their place in the order."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple

from mq.lifecycle import Folder
from mq.names import (
    MessageId,
    QueueName,
    file_name,
    id_time_ns,
    is_message_id,
    is_v7,
    order_key,
    queue_path,
)
from mq.spool.folders import Spool
from mq.spool.message import SEAL_ATTRIBUTE, Seal

_SAME_TICK_NS = 20_000_000
"""A folder changed twice within so short a time may keep its mtime (kernels before 6.13)."""


class Listing(NamedTuple):
    """One look at a queue's folder. `mtime_ns` is None where it cannot vouch for the listing."""

    inode: int
    mtime_ns: int | None
    seconds: float
    keys: list[str]


def key_of(spool: Spool, queue: QueueName, message_id: str) -> str | None:
    """Where a message of the queue stands in the order; None if it is gone.

    By the time inside a v7 or v1 id, else that of the seal, else mtime; then by id.
    """
    if is_v7(message_id):
        return message_id
    time_ns = id_time_ns(message_id)
    if time_ns is None:
        time_ns = _published_ns(spool, Folder.QUEUES, queue_path(queue, MessageId(message_id)))
    return None if time_ns is None else order_key(message_id, time_ns)


def place_of(spool: Spool, queue: QueueName, message_id: MessageId) -> str | None:
    """As `key_of`, also of a message that left the queue; None if there is nothing to tell it
    by."""
    key = key_of(spool, queue, message_id)
    if key is not None:
        return key
    name = file_name(queue, message_id)
    times = (_published_ns(spool, folder, name) for folder in (Folder.DELAY, Folder.REMOVE))
    time_ns = next((each for each in times if each is not None), None)
    return None if time_ns is None else order_key(message_id, time_ns)


def _published_ns(spool: Spool, folder: Folder, name: str) -> int | None:
    path = spool.path(folder, name)
    try:
        if seal := Seal.unpack(spool.files.attribute(path, SEAL_ATTRIBUTE)):
            return seal.published_ns
        return os.stat(path, follow_symlinks=False).st_mtime_ns
    except FileNotFoundError:
        return None
    except OSError:
        # It stays within reach, before all others: whoever takes it finds out what is wrong.
        return 0


def list_queue(spool: Spool, queue: QueueName, is_known: Callable[[str], bool]) -> Listing | None:
    """Look for messages that `is_known` denies; None if there is no such queue.

    Blocking, about 1 µs a message; for a worker.
    """
    started = time.monotonic()
    status = spool.status(Folder.QUEUES, queue)
    try:
        names = spool.names_in_queue(queue)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if status is None:
        return None
    found = (name for name in names if is_message_id(name) and not is_known(name))
    keys = sorted(key for name in found if (key := key_of(spool, queue, name)) is not None)
    is_old = status.st_mtime_ns < time.time_ns() - _SAME_TICK_NS
    mtime_ns = status.st_mtime_ns if is_old else None
    return Listing(status.st_ino, mtime_ns, time.monotonic() - started, keys)
