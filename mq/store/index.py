"""What waits in each queue: a cache of the folders, in the order of publication.

The server adds what it delivers, file system events tell of what others do, and a listing finds
what both missed. An entry that is there no more costs a fetch one failed open. So no fetch lists a
folder, and no message is out of reach.

Used by the committer alone.
"""

from __future__ import annotations

import heapq
import os
import random
import time
from bisect import bisect_right
from collections.abc import Callable
from itertools import islice

import structlog

from mq.config import DRAIN_SECONDS, RELIST_PAUSE_FACTOR
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, id_of_key, is_message_id, time_of_key
from mq.spool.arrivals import Change, Watch
from mq.spool.folders import Spool
from mq.spool.listing import Listing, key_of

log = structlog.get_logger(__name__)

_ALL_QUEUES = "/"
"""What the folder `queues` is called where the others go by the names of their queues."""


class ReadyQueue:
    """The ids of one queue, oldest first. Adding twice, or dropping what is not there, is fine.
    `came` is told how many are new."""

    def __init__(self, came: Callable[[int], None] = lambda count: None) -> None:
        self._came = came
        self._heap: list[str] = []
        self._keys: dict[str, str] = {}
        self._gone_while_listing: set[str] | None = None
        self._being_taken: dict[str, bool] = {}
        self.inode = 0
        self.watched_inode = 0
        self.listed_mtime_ns: int | None = None
        self.is_loaded = False
        self.next_listing = 0.0

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._keys

    def add(self, key: str) -> None:
        if self.restore(key):
            self._came(1)

    def restore(self, key: str) -> bool:
        """Put back what was taken out, and tell nobody. False if it is there."""
        message_id = id_of_key(key)
        if message_id in self._keys:
            return False
        self._keys[message_id] = key
        heapq.heappush(self._heap, key)
        return True

    def discard(self, message_id: str) -> None:
        """Drop an id; its place in the heap is skipped later."""
        if self._gone_while_listing is not None:
            self._gone_while_listing.add(message_id)
        if (
            self._keys.pop(message_id, None) is not None
            and len(self._heap) > 2 * len(self._keys) + 64
        ):
            self._heap = sorted(self._keys.values())

    def pop(self, among: int = 1) -> MessageId | None:
        """Take out the oldest, or at random one of the `among` oldest."""
        oldest: list[str] = []
        while len(oldest) < among and self._drop_stale() is not None:
            oldest.append(heapq.heappop(self._heap))
        if not oldest:
            return None
        chosen = id_of_key(oldest.pop(random.randrange(len(oldest)) if among > 1 else 0))
        for key in oldest:
            heapq.heappush(self._heap, key)
        self.discard(chosen)
        return MessageId(chosen)

    def begin_taking(self, message_id: str) -> None:
        """An operation has taken it out and is about to move it; others go on meanwhile. Until
        `end_taking` events of its arrival are old ones."""
        self._being_taken[message_id] = False

    def end_taking(self, message_id: str) -> bool:
        """Whether an event told of its arrival meanwhile."""
        return self._being_taken.pop(message_id)

    def is_being_taken(self, message_id: str) -> bool:
        """Asked when an event tells of its arrival."""
        if message_id not in self._being_taken:
            return False
        self._being_taken[message_id] = True
        return True

    def oldest(self, limit: int) -> list[MessageId]:
        """The oldest `limit`, which stay in."""
        keys: list[str] = []
        while len(keys) < limit and (key := self._drop_stale()) is not None:
            heapq.heappop(self._heap)
            if not keys or keys[-1] != key:
                keys.append(key)
        for key in keys:
            heapq.heappush(self._heap, key)
        return [MessageId(id_of_key(key)) for key in keys]

    def key(self, message_id: str) -> str | None:
        """Its place in the order; None if it is not in."""
        return self._keys.get(message_id)

    def behind(self, key: str, limit: int) -> list[MessageId]:
        """The first `limit` behind that place in the order, which stay in."""
        # It is mostly sorted, which is what sort() is quick at; a sorted list is a heap.
        self._heap.sort()
        found: dict[str, None] = {}
        for each in islice(self._heap, bisect_right(self._heap, key), None):
            if self._keys.get(id_of_key(each)) == each:
                found[id_of_key(each)] = None
            if len(found) == limit:
                break
        return [MessageId(each) for each in found]

    def oldest_ns(self) -> int | None:
        """The publication time of the oldest."""
        key = self._drop_stale()
        return None if key is None else time_of_key(key)

    def _drop_stale(self) -> str | None:
        """The key on top of the heap, once those that were discarded are off it."""
        while self._heap:
            key = self._heap[0]
            if self._keys.get(id_of_key(key)) == key:
                return key
            heapq.heappop(self._heap)
        return None

    def begin_listing(self) -> None:
        self._gone_while_listing = set()

    def end_listing(self, listing: Listing | None) -> None:
        """Take in what a listing found, except what left while it ran; None if it failed."""
        gone, self._gone_while_listing = self._gone_while_listing or set(), None
        if listing is None:
            return
        fresh = {id_of_key(key): key for key in listing.keys}
        for message_id in gone | (fresh.keys() & self._keys.keys()):
            fresh.pop(message_id, None)
        self._keys.update(fresh)
        # Both parts are mostly sorted, which is what sort() is quick at; a sorted list is a heap.
        self._heap.extend(fresh.values())
        self._heap.sort()
        self.inode, self.listed_mtime_ns = listing.inode, listing.mtime_ns
        self.next_listing = time.monotonic() + RELIST_PAUSE_FACTOR * listing.seconds
        self.is_loaded = True
        self._came(len(fresh))


class ReadyQueues:
    """The index of every queue in use, fed by file system events where the system has them.

    `came` is called with a queue and the number of its new messages, or for a new look.
    """

    def __init__(self, spool: Spool) -> None:
        self.came: Callable[[QueueName, int], None] = lambda queue, count: None
        self._spool = spool
        self._queues: dict[str, ReadyQueue] = {}
        self._last_drain = 0.0
        self.watch = self._start_watch()

    def _start_watch(self) -> Watch | None:
        try:
            watch = Watch()
            # The kernel does not tell of the end of a folder that is open, only of its name's.
            watch.add(_ALL_QUEUES, f"/proc/self/fd/{self._spool.queues.fd}/.")
        except OSError as error:
            log.warning("no file system events; listings only", error=str(error))
            return None
        return watch

    def close(self) -> None:
        if self.watch is not None:
            self.watch.close()

    def names(self) -> list[QueueName]:
        return [QueueName(name) for name in self._queues]

    def get(self, queue: QueueName) -> ReadyQueue | None:
        return self._queues.get(queue)

    def begin_listing(self, queue: QueueName) -> ReadyQueue:
        """Watch first: what arrives from here on is an event, what was there is in the listing."""
        ready = self._queues.get(queue)
        if ready is None:
            ready = self._queues[queue] = ReadyQueue(lambda count: self.came(queue, count))
            self._add_watch(queue, ready)
        ready.begin_listing()
        return ready

    def forget(self, queue: QueueName) -> None:
        """Forget a queue that must be listed again: its folder has changed, or events were lost."""
        self._spool.queues.drop(queue)
        if self._queues.pop(queue, None) is not None:
            if self.watch is not None:
                self.watch.drop(queue)
            self.came(queue, 1)

    def add(self, queue: QueueName, message_id: MessageId, key: str | None = None) -> None:
        """The server itself put a message into the queue; with its place in the order, if that is
        known. An id that this server has just made is its own place."""
        ready = self._queues.get(queue)
        if ready is None:
            return
        if key is None:
            self._came(queue, ready, message_id)
        else:
            ready.add(key)

    def restore(self, queue: QueueName, message_id: MessageId) -> None:
        """A fetch passed it over: it is there as before, and nobody need be told."""
        key = key_of(self._spool, queue, message_id)
        if queue in self._queues and key is not None:
            self._queues[queue].restore(key)

    def _add_watch(self, queue: QueueName, ready: ReadyQueue) -> None:
        if self.watch is None:
            return
        try:
            opened = self._spool.queues.open(queue)
            self.watch.add(queue, f"/proc/self/fd/{opened.fd}/.")
            ready.watched_inode = os.fstat(opened.fd).st_ino
        except OSError as error:
            log.warning("queue is not watched; listings only", queue=queue, error=str(error))

    def drain_sometimes(self, now: float) -> None:
        """Take in events before the kernel's queue of them overflows."""
        if now - self._last_drain > DRAIN_SECONDS:
            self._last_drain = now
            self.drain()

    def drain(self) -> None:
        """Take in all events so far. Only the last one of each name counts."""
        if self.watch is None:
            return
        arrivals = self.watch.read_last()
        if any(change is Change.OVERFLOW for _, _, change in arrivals):
            log.warning("file system events were lost; listing again")
            for queue in self.names():
                self.forget(queue)
            return
        for folder, name, change in arrivals:
            if folder == _ALL_QUEUES:
                self._look_whether_it_is_the_same(QueueName(name))
                continue
            if change is Change.FOLDER_WENT:
                self.forget(QueueName(folder))
            ready = self._queues.get(folder)
            if ready is None:
                continue
            if change is Change.WENT:
                ready.discard(name)
            elif name not in ready and not ready.is_being_taken(name) and is_message_id(name):
                self._came(QueueName(folder), ready, name)

    def _look_whether_it_is_the_same(self, queue: QueueName) -> None:
        """Something was done to the name of a queue. Forget the queue unless the name still leads
        to the folder that is watched: events also tell that this one was made. When the disk does
        not say where it leads, a listing will.

        While a folder is open here its number is not given to another one, and of the end of a
        folder that is not open the kernel tells.
        """
        ready = self._queues.get(queue)
        if ready is None:
            return
        try:
            inode = self._spool.inode(Folder.QUEUES, queue)
        except OSError:
            inode = None
        if inode != ready.watched_inode:
            self.forget(queue)

    def _came(self, queue: QueueName, ready: ReadyQueue, message_id: str) -> None:
        key = key_of(self._spool, queue, message_id)
        if key is not None:
            ready.add(key)
