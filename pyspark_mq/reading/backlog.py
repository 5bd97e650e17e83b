"""The messages that wait in the queues of a stream, oldest first. The queues are listed again only
when this has run dry."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice, repeat

from mq.ids import id_of_key, order_key
from mq.names import MessageId, QueueName, is_fifo, is_message_id
from mq.spool.queue.listing import key_of, list_queue
from mq.spool.spool import Spool
from pyspark_mq.options.queue_patterns import match_queues

_COUNTING_SHARE = 0.1
"""How much of the time counting may take: a deep queue takes long to list, and Spark asks at each
batch, however small that is."""


class Backlog:
    """The messages of the queues that match `patterns`. After `freeze` none is added."""

    def __init__(
        self,
        spool: Spool,
        patterns: tuple[str, ...],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._counted, self._count_from = 0, clock()
        self._spool = spool
        self._patterns = patterns
        self._waiting: Iterator[tuple[str, QueueName]] = iter(())
        self._put_back: list[tuple[str, QueueName]] = []
        self._left: set[tuple[QueueName, str]] = set()
        self._count = 0
        self._is_frozen = False

    def freeze(self) -> None:
        """List what waits now, and add nothing later."""
        self._list()
        self._is_frozen = True

    def look(self) -> int:
        """Return how many messages `pop` has at most. Lists the queues if it has none."""
        if not self._count and not self._is_frozen:
            self._list()
        return self._count

    def pop(self) -> tuple[QueueName, MessageId] | None:
        """Return the oldest message, which may be gone from its queue by now."""
        popped = self.pop_many(1)
        return popped[0] if popped else None

    def pop_many(self, count: int) -> list[tuple[QueueName, MessageId]]:
        """Return the oldest `count` messages, or as many as there are."""
        popped = list(islice(chain(self._put_back, self._waiting), count))
        self._put_back.clear()
        self._count -= len(popped)
        self._counted -= len(popped)
        return [(queue, MessageId(id_of_key(key))) for key, queue in popped]

    def put_back(self, queue: QueueName, message_id: MessageId) -> None:
        """Put back the message that `pop` returned last: it is for the next batch."""
        self._put_back.append((self._key(queue, message_id), queue))
        self._count += 1
        self._counted += 1

    def leave(self, queue: QueueName, message_id: MessageId) -> None:
        """List this message no more."""
        self._left.add((queue, message_id))

    def count(self) -> int:
        """Return how many messages wait in the queues; between two counts, how many were counted
        and not popped since."""
        if (started := self._clock()) >= self._count_from:
            names = map(self._names, self._queues())
            self._counted = sum(sum(map(is_message_id, each)) for each in names)
            self._count_from = started + (self._clock() - started) / _COUNTING_SHARE
        return max(0, self._counted)

    def _list(self) -> None:
        queues = self._queues()
        keys = [self._keys(queue) for queue in queues]
        self._count = sum(map(len, keys))
        # It holds one string for each message and no more, because there may be millions.
        self._waiting = heapq.merge(*map(zip, keys, map(repeat, queues)))

    def _keys(self, queue: QueueName) -> list[str]:
        """Return the keys of a queue's messages, in order, and none if the queue is gone."""
        listing = list_queue(self._spool, queue)
        keys = [] if listing is None else listing.keys
        if self._left:
            keys = [key for key in keys if (queue, id_of_key(key)) not in self._left]
        return keys

    def _queues(self) -> list[QueueName]:
        existing = [name for name in self._spool.queue_names() if not is_fifo(name)]
        return match_queues(self._patterns, existing)

    def _names(self, queue: QueueName) -> list[str]:
        try:
            return self._spool.names_in_queue(queue)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _key(self, queue: QueueName, message_id: MessageId) -> str:
        """Return the key of a message as a server orders it. A message that is gone comes first."""
        return key_of(self._spool, queue, message_id) or order_key(message_id, 0)
