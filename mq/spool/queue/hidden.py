"""One look at `delay`: the leased and delayed messages of a queue, by their keys."""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import merge
from typing import NamedTuple

from mq.disk.calls import ATTRIBUTE, CLOSE, OPEN_MESSAGE, run
from mq.ids import is_server_id, order_key
from mq.lifecycle import HIDDEN_STATES, Folder, State
from mq.names import MessageId, QueueName, file_name, is_message_id
from mq.spool.disk_errors import FAULTS_OF_ONE_MESSAGE, NO_MESSAGE
from mq.spool.message.seal import SEAL_ATTRIBUTE, Seal, published_ns, state_in
from mq.spool.spool import Spool

MAX_HIDDEN_KEYS = 1 << 20
"""One listing has the keys of this many messages, about 100 bytes each."""

_AT_ONCE = 500
"""The seals of this number of files are read with the GIL released once."""

_OF_ONE_FILE = FAULTS_OF_ONE_MESSAGE | NO_MESSAGE | {errno.EIO, errno.EISDIR}
"""The file is gone, is not a message, or cannot be read: a look passes it over."""


class HiddenKey(NamedTuple):
    """The key and the state of a message in `delay`."""

    key: str
    state: State


class HiddenListing(NamedTuple):
    """The sorted keys of a queue's messages in `delay`, by state; those in `unread` are in either
    state, and their seals say in which. They are all from the key where the listing began up to
    `end`, or to the end of the queue if `end` is None."""

    unread: list[str]
    keys: dict[State, list[str]]
    end: str | None

    @property
    def messages(self) -> int:
        """The number of messages."""
        return sum(map(len, (self.unread, *self.keys.values())))


def hidden_names(spool: Spool, queue: QueueName) -> list[str]:
    """Return the names of a queue's messages in `delay`, in no order. Raises OSError."""
    return [f"{queue}:{each}" for each in _ids_of(spool, queue) if is_message_id(each)]


def _ids_of(spool: Spool, queue: QueueName) -> list[str]:
    """Return what is behind `QUEUE:` in the names in `delay`, which may be no ids."""
    prefix = f"{queue}:"
    return [name[len(prefix) :] for name in spool.names(Folder.DELAY) if name.startswith(prefix)]


def list_hidden(spool: Spool, queue: QueueName, after: str) -> HiddenListing:
    """List up to MAX_HIDDEN_KEYS messages in `delay` behind the key `after`; "" is before all.

    Blocking, for a worker: about 2 µs for each message of the queue, 8 µs for one with an id of its
    producer, and 0.5 µs for each of another queue. Raises OSError.
    """
    ids = _ids_of(spool, queue)
    # The id of a server is its own key.
    unread = [each for each in ids if is_server_id(each) and each > after]
    own = [each for each in ids if not is_server_id(each) and is_message_id(each)]
    read = [each for each in hidden_keys(spool, queue, own) if each.key > after]
    end = None
    if len(unread) + len(read) > MAX_HIDDEN_KEYS:
        end = sorted([*unread, *(each.key for each in read)])[MAX_HIDDEN_KEYS - 1]
        unread = [each for each in unread if each <= end]
        read = [each for each in read if each.key <= end]
    return HiddenListing(
        sorted(unread),
        {
            state: sorted(each.key for each in read if each.state is state)
            for state in HIDDEN_STATES
        },
        end,
    )


def keys_in_state(
    spool: Spool, queue: QueueName, listing: HiddenListing, state: State, after: str
) -> Iterator[str]:
    """Yield the keys of those in that state that are behind the key `after`, in order. A seal is
    read only when its key is asked for. Raises OSError."""
    unread, known = listing.unread, listing.keys[state]
    found = hidden_keys(spool, queue, unread[bisect_right(unread, after) :])
    read = (each.key for each in found if each.state is state)
    return merge(read, known[bisect_right(known, after) :])


def hidden_keys(spool: Spool, queue: QueueName, message_ids: Sequence[str]) -> Iterator[HiddenKey]:
    """Yield the keys and states of those that are in `delay` and can be read, in the order
    given. It takes about 6 µs for each. Raises OSError."""
    for start in range(0, len(message_ids), _AT_ONCE):
        yield from _read_keys(spool, queue, message_ids[start : start + _AT_ONCE])


def _read_keys(spool: Spool, queue: QueueName, message_ids: Sequence[str]) -> Iterator[HiddenKey]:
    folder_fd = spool.fd(Folder.DELAY)
    chains = [
        (
            (OPEN_MESSAGE, folder_fd, file_name(queue, MessageId(each))),
            (ATTRIBUTE, ~0, SEAL_ATTRIBUTE),
            (CLOSE, ~0),
        )
        for each in message_ids
    ]
    outcomes = run(spool.files, chains)
    for message_id, (results, code) in zip(message_ids, outcomes, strict=True):
        if code in _OF_ONE_FILE:
            continue
        if code:
            raise OSError(code, os.strerror(code), f"{Folder.DELAY}/{queue}:{message_id}")
        seal = Seal.unpack(results[1])
        key = _key(spool, queue, message_id, seal)
        if key is not None:
            yield HiddenKey(key, state_in(Folder.DELAY, seal))


def _key(spool: Spool, queue: QueueName, message_id: str, seal: Seal | None) -> str | None:
    """Return the key of a message in `delay`, as `listing.key_of` does in a queue."""
    if is_server_id(message_id):
        return message_id
    if seal is not None:
        return order_key(message_id, seal.published_ns)
    status = spool.status(Folder.DELAY, file_name(queue, MessageId(message_id)))
    return None if status is None else order_key(message_id, published_ns(None, status, message_id))
