"""What one listing of `delay` found of a queue, page by page, as it changes. For one thread."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from mq.ids import id_of_key
from mq.lifecycle import State
from mq.names import QueueName
from mq.spool.queue.hidden import HiddenKey, HiddenListing

_READ_AT_ONCE = 500
"""This number of seals is read before a page is looked for again."""


class HiddenPage(NamedTuple):
    """Keys of messages in one state, in their order. If there are none, no message in that state
    is behind the key asked for, up to `end`, or to the end of the queue if that is None. If some
    are `unread`, their seals decide what comes first: `HiddenIndex.read` them, and ask again."""

    keys: list[str]
    end: str | None
    unread: list[str]


class _Keys:
    """Sorted keys. Those that went away are skipped, and dropped now and then."""

    def __init__(self, keys: list[str]) -> None:
        self._keys = keys
        self._gone: set[str] = set()

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: str) -> None:
        at = bisect_left(self._keys, key)
        if self._is_at(at, key):
            self._gone.discard(key)
        else:
            self._keys.insert(at, key)

    def discard(self, key: str) -> None:
        if not self._is_at(bisect_left(self._keys, key), key):
            return
        self._gone.add(key)
        if len(self._gone) > len(self._keys) // 8 + 64:
            self._keys = [each for each in self._keys if each not in self._gone]
            self._gone.clear()

    def behind(self, key: str, limit: int) -> list[str]:
        found: list[str] = []
        for at in range(bisect_right(self._keys, key), len(self._keys)):
            if len(found) == limit:
                break
            if self._keys[at] not in self._gone:
                found.append(self._keys[at])
        return found

    def _is_at(self, at: int, key: str) -> bool:
        return at < len(self._keys) and self._keys[at] == key


class HiddenWindow:
    """A queue's keys in `delay` behind `after`, up to `end`."""

    def __init__(self, queue: QueueName, after: str, listing: HiddenListing) -> None:
        self.queue = queue
        self._after, self.end = after, listing.end
        self._keys = {state: _Keys(keys) for state, keys in listing.keys.items()}
        self._unread = _Keys(listing.unread)
        self._own_keys = {
            id_of_key(key): key
            for keys in listing.keys.values()
            for key in keys
            if id_of_key(key) != key
        }
        self.good_until = 0.0
        """By the monotonic clock."""

    def __len__(self) -> int:
        return sum(map(len, (self._unread, *self._keys.values())))

    def knows_what_is_behind(self, key: str) -> bool:
        return self._after <= key and (self.end is None or key < self.end)

    def page(self, state: State, key: str, limit: int, read_to: str) -> HiddenPage:
        """See `HiddenIndex.page`."""
        keys = self._keys[state].behind(key, limit)
        unread = self._unread.behind(max(key, read_to), _READ_AT_ONCE)
        if len(keys) == limit:
            unread = [each for each in unread if each < keys[-1]]
        return HiddenPage(keys, self.end, unread)

    def put(self, hidden: HiddenKey) -> None:
        """Note that a message is in that state now."""
        message_id = id_of_key(hidden.key)
        self.drop(message_id)
        if self._after < hidden.key and (self.end is None or hidden.key <= self.end):
            self._keys[hidden.state].add(hidden.key)
            if message_id != hidden.key:
                self._own_keys[message_id] = hidden.key

    def drop(self, message_id: str) -> None:
        """Note that a message is not hidden any more."""
        key = self._own_keys.pop(message_id, message_id)
        for keys in (self._unread, *self._keys.values()):
            keys.discard(key)
