"""List a queue's folder: the messages in it, by their keys."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from mq.disk.status import may_stay
from mq.ids import id_time_ns, is_server_id, order_key, time_of_key
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, is_message_id, queue_path
from mq.spool.message.held import seal_at
from mq.spool.message.seal import published_ns
from mq.spool.spool import Spool

ON_ITS_WAY = 3
"""How often `queues` and `delay` are looked at in turn. A receive and a redelivery may pass between
two looks, again and again."""

UNREADABLE_NS = 0
"""When a message counts as published whose file cannot be read."""

_AT_ONCE = 10_000
"""While this many names are put into a set no other thread runs."""


class Listing(NamedTuple):
    """A queue's folder as it was listed: the messages that were not known, and the ids of those
    that were and are not there. `mtime_ns` is None if an unchanged mtime does not mean an unchanged
    folder."""

    inode: int
    mtime_ns: int | None
    seconds: float
    keys: list[str]
    missing: list[str]


def key_of(spool: Spool, queue: QueueName, message_id: str) -> str | None:
    """Return the key by which a message is sorted in its queue, or None if it is gone.

    The id of a server says when the message was published. For any other id the seal says it;
    without a seal it is the time inside a v7 or v1 id, or else the mtime. Messages of the same time
    are in the order of their ids.
    """
    if is_server_id(message_id):
        return message_id
    name = queue_path(queue, MessageId(message_id))
    time_ns = _published_ns(spool, Folder.QUEUES, name, message_id)
    return None if time_ns is None else order_key(message_id, time_ns)


def find_key(spool: Spool, queue: QueueName, message_id: MessageId) -> str | None:
    """Return the key of a message as `key_of` does, or by the time inside its id if it has left
    the queue. Returns None if nothing tells the time."""
    if is_server_id(message_id):
        return message_id
    flat = file_name(queue, message_id)
    ways = ((Folder.QUEUES, queue_path(queue, message_id)), (Folder.DELAY, flat)) * ON_ITS_WAY
    times = (_published_ns(spool, *way, message_id) for way in (*ways, (Folder.REMOVE, flat)))
    time_ns = next((each for each in times if each is not None), id_time_ns(message_id))
    return None if time_ns is None else order_key(message_id, time_ns)


def _published_ns(spool: Spool, folder: Folder, name: str, message_id: str) -> int | None:
    try:
        if seal := seal_at(spool, folder, name):
            return seal.published_ns
        status = spool.status(folder, name)
    except FileNotFoundError:
        return None
    except OSError:
        # The message comes before all others, so the next receive finds out what is wrong with it.
        return UNREADABLE_NS
    return None if status is None else published_ns(None, status, message_id)


LAST_UNREADABLE = order_key("~", UNREADABLE_NS)
"""A key behind those of all messages that cannot be read."""


def oldest_ns(keys: Iterable[str]) -> int | None:
    """Return when the first of these messages was published, in the order of their keys, as far as
    that is known: those that cannot be read come first, and say nothing."""
    times = map(time_of_key, keys)
    return next((each for each in times if each != UNREADABLE_NS), None)


def list_queue(spool: Spool, queue: QueueName, known: Collection[str] = ()) -> Listing | None:
    """List a queue, of which these messages are known. Returns None if there is no such queue.

    Blocking, for a worker: about 1 µs for each message, 5 µs for one with its producer's id.
    """
    started, before = time.monotonic(), list(known)
    try:
        opened, now_ns = spool.queues.open(queue), time.time_ns()
        status = os.fstat(opened.fd)
        names = spool.names_in_queue(queue)
    except (FileNotFoundError, NotADirectoryError):
        return None
    found = [name for name in names if name not in known and is_message_id(name)]
    keys = sorted(filter(None, map(partial(key_of, spool, queue), found)))
    is_old = not may_stay(status.st_mtime_ns, now_ns)
    # On a network file system the time is another host's, and may have been cached here.
    mtime_ns = status.st_mtime_ns if is_old and not spool.files.is_of_network else None
    missing = _missing(spool, queue, before, names) if before else []
    return Listing(status.st_ino, mtime_ns, time.monotonic() - started, keys, missing)


def _missing(
    spool: Spool, queue: QueueName, before: Sequence[str], names: Sequence[str]
) -> list[str]:
    """Return those that were known before these names were listed, and are not there now either."""
    there: set[str] = set()
    for start in range(0, len(names), _AT_ONCE):
        there.update(names[start : start + _AT_ONCE])
    return [each for each in before if each not in there and not may_be_in(spool, queue, each)]


def may_be_in(spool: Spool, queue: QueueName, message_id: str) -> bool:
    """Return False if the message is not in the queue; True also if the disk does not say."""
    try:
        return spool.exists(Folder.QUEUES, queue_path(queue, MessageId(message_id)))
    except OSError:
        return True
