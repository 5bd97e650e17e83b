"""What waits in one queue, in the order of publication.

Used by the committer alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from mq.config import RELIST_PAUSE_FACTOR
from mq.ids import id_of_key, order_key, time_of_key
from mq.names import MessageId
from mq.spool.queue.listing import Listing
from mq.store.index.sorted_keys import SortedKeys


class Follower(Protocol):
    """Keeps something about each message of a queue's index."""

    def came(self, key: str) -> None:
        """Note that a message is in, with that key."""

    def went(self, message_id: str) -> None:
        """Note that a message is not in any more."""


class ReadyQueue:
    """The ids of one queue, oldest first. Adding twice, or dropping what is not there, is fine.
    `came` is told how many are new, a `follower` which ones."""

    def __init__(self, came: Callable[[int], None] = lambda count: None) -> None:
        self._came = came
        self._keys: dict[str, str] = {}
        self._order = SortedKeys()
        self._gone: list[set[str]] = []
        self._gone_while_listing: set[str] = set()
        self._there_while_listing: set[str] | None = None
        self._being_taken: dict[str, bool] = {}
        self._kept: str | None = None
        self.follower: Follower | None = None
        self.inode = 0
        self.watched_inode = 0
        self.listed_mtime_ns: int | None = None
        self.is_loaded = False
        self.next_listing = 0.0

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the messages that are in now, whatever another thread changes meanwhile."""
        return iter(list(self._keys))

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._keys

    def add(self, key: str) -> None:
        if self.restore(key):
            self._came(1)

    def restore(self, key: str) -> bool:
        """Put back what was taken out, and tell nobody. Returns False if it is there already."""
        message_id = id_of_key(key)
        self.note_there(message_id)
        if message_id in self._keys:
            return False
        self._keys[message_id] = key
        self._order.add(key)
        if self.follower is not None:
            self.follower.came(key)
        return True

    def note_there(self, message_id: str) -> None:
        """Note that a message is in the folder, whatever a listing that is under way has found."""
        if self._there_while_listing is not None:
            self._there_while_listing.add(message_id)

    def discard(self, message_id: str) -> None:
        """Drop an id; its key is skipped later."""
        for gone in self._gone:
            gone.add(message_id)
        if self._keys.pop(message_id, None) is None:
            return
        if len(self._order) > 2 * len(self._keys) + 64:
            self._order = SortedKeys(self._keys.values())
        if self.follower is not None:
            self.follower.went(message_id)

    def discard_all(self, names: Sequence[str]) -> None:
        """Drop what has gone from the folder, most of which this server has taken out itself."""
        for gone in self._gone:
            gone.update(names)
        keys = self._keys
        for name in [each for each in names if each in keys]:
            self.discard(name)

    def pop(self) -> MessageId | None:
        """Take out the oldest."""
        popped = self.pop_some(1)
        return popped[0] if popped else None

    def pop_some(self, limit: int) -> list[MessageId]:
        """Take out up to `limit` of the oldest."""
        keys = self._keys
        popped: list[MessageId] = []
        while len(popped) < limit and (taken := self._order.take(limit - len(popped))):
            for key in taken:
                message_id = key if key in keys else id_of_key(key)
                if keys.get(message_id) == key:  # Or it was discarded.
                    del keys[message_id]
                    popped.append(MessageId(message_id))
        for gone in self._gone:
            gone.update(popped)
        if self.follower is not None:
            for each in popped:
                self.follower.went(each)
        return popped

    def begin_taking(self, message_id: str) -> None:
        """Note that an operation has taken a message out and is about to move it, while others go
        on. Until `end_taking`, an event of its arrival does not put it back. If this server puts it
        back meanwhile, because it was hidden all the time, another operation may take it too."""
        self._being_taken.setdefault(message_id, False)

    def end_taking(self, message_id: str) -> bool:
        """Return whether an event told of the message's arrival meanwhile: to the first of several
        operations that took it."""
        return self._being_taken.pop(message_id, False)

    def note_arrival_if_taken(self, message_id: str) -> bool:
        """Note that an event told of a message's arrival, if an operation is taking that message.
        Returns whether one is."""
        if message_id not in self._being_taken:
            return False
        self._being_taken[message_id] = True
        return True

    def keep(self, message_id: str) -> None:
        """Note that the disk has refused to move a message, which is in again."""
        self._kept = self._keys.get(message_id)

    def is_behind_kept(self, message_id: str, published_ns: int) -> bool:
        """Return whether a message comes after the last one that was kept, which is in or just
        being taken."""
        if self._kept is None or self._kept >= order_key(message_id, published_ns):
            return False
        kept_id = id_of_key(self._kept)
        return kept_id in self._keys or kept_id in self._being_taken

    def follow(self, follower: Follower) -> dict[str, str]:
        """Tell the follower from now on of each message that comes or goes. Returns the keys of
        those that are in, by their ids."""
        self.follower = follower
        return self._keys.copy()

    def key(self, message_id: str) -> str | None:
        """Return a message's key, or None if it is not in."""
        return self._keys.get(message_id)

    def behind(self, key: str, limit: int) -> list[MessageId]:
        """Return the first `limit` messages behind that key, which stay in. All are behind ""."""
        return [*islice(self.iterate_behind(key), limit)]

    def iterate_behind(self, key: str) -> Iterator[MessageId]:
        """Iterate over the messages behind that key, oldest first. None may come or go
        meanwhile."""
        self._first()
        for each in self._order.behind(key):
            message_id = id_of_key(each)
            if each != key and self._keys.get(message_id) == each:
                key = each  # A key may be there twice.
                yield MessageId(message_id)

    def oldest_ns(self) -> int | None:
        """Return when the oldest message was published, in ns since 1970, or None if there is
        none."""
        key = self._first()
        return None if key is None else time_of_key(key)

    def _first(self) -> str | None:
        """Take what was discarded off the beginning of the order, and return the key that is there
        then."""
        while (key := self._order.first()) is not None:
            if self._keys.get(id_of_key(key)) == key:
                return key
            self._order.take(1)
        return None

    def begin_noting_gone(self) -> set[str]:
        """Return a set to which all ids are added that leave the index from now on, until
        `end_noting_gone`."""
        gone: set[str] = set()
        self._gone.append(gone)
        return gone

    def end_noting_gone(self, gone: set[str]) -> None:
        self._gone = [each for each in self._gone if each is not gone]

    def begin_listing(self) -> None:
        self._gone_while_listing = self.begin_noting_gone()
        self._there_while_listing = set()

    def end_listing(self, listing: Listing | None) -> None:
        """Take in what a listing found, except what left while it ran, and drop what it did not
        find, except what came. It is None if it failed."""
        gone = self._gone_while_listing
        self.end_noting_gone(gone)
        there, self._there_while_listing = self._there_while_listing or set(), None
        if listing is None:
            return
        self.discard_all([each for each in listing.missing if each not in there])
        fresh = {id_of_key(key): key for key in listing.keys}
        for message_id in gone | (fresh.keys() & self._keys.keys()):
            fresh.pop(message_id, None)
        self._keys.update(fresh)
        if self.follower is not None:
            for key in fresh.values():
                self.follower.came(key)
        self._order.update(fresh.values())
        self.inode, self.listed_mtime_ns = listing.inode, listing.mtime_ns
        self.next_listing = time.monotonic() + RELIST_PAUSE_FACTOR * listing.seconds
        self.is_loaded = True
        self._came(len(fresh))
