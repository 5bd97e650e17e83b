"""What waits in the queues of a stream, oldest first: listed when it has run dry, not before."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator
from itertools import chain, islice, repeat

from mq.lifecycle import Folder
from mq.names import (
    MessageId,
    QueueName,
    id_of_key,
    id_time_ns,
    is_message_id,
    is_queue_name,
    is_v7,
    order_key,
    queue_path,
)
from mq.spool.folders import Spool
from mq.spool.message import SEAL_ATTRIBUTE, Seal
from pyspark_mq.options import match_queues


class Backlog:
    """The messages of the queues that match `patterns`. Once `freeze` was called none is added."""

    def __init__(self, spool: Spool, patterns: tuple[str, ...]) -> None:
        self._spool = spool
        self._patterns = patterns or ("*",)
        self._waiting: Iterator[tuple[str, QueueName]] = iter(())
        self._put_back: list[tuple[str, QueueName]] = []
        self._count = 0
        self._is_frozen = False

    def freeze(self) -> None:
        """What waits now is all there will be."""
        self._list()
        self._is_frozen = True

    def look(self) -> int:
        """How many messages `pop` has, at the most; lists the queues if it has none."""
        if not self._count and not self._is_frozen:
            self._list()
        return self._count

    def pop(self) -> tuple[QueueName, MessageId] | None:
        """The oldest; it may be gone from its queue by now."""
        popped = self.pop_many(1)
        return popped[0] if popped else None

    def pop_many(self, count: int) -> list[tuple[QueueName, MessageId]]:
        """The oldest, as many as there are."""
        popped = list(islice(chain(self._put_back, self._waiting), count))
        self._put_back.clear()
        self._count -= len(popped)
        return [(queue, MessageId(id_of_key(key))) for key, queue in popped]

    def put_back(self, queue: QueueName, message_id: MessageId) -> None:
        """The one that `pop` gave last is for the next batch."""
        self._put_back.append((self._key(queue, message_id), queue))
        self._count += 1

    def count(self) -> int:
        """How many messages wait in the queues now."""
        return sum(sum(map(is_message_id, self._names(queue))) for queue in self._queues())

    def _list(self) -> None:
        queues = self._queues()
        keys = [sorted(self._keys(queue)) for queue in queues]
        self._count = sum(map(len, keys))
        # A string for each message and no more: there may be millions.
        self._waiting = heapq.merge(*map(zip, keys, map(repeat, queues)))

    def _keys(self, queue: QueueName) -> Iterator[str]:
        for name in self._names(queue):
            if is_v7(name):
                yield name
            elif is_message_id(name):
                yield self._key(queue, MessageId(name))

    def _queues(self) -> list[QueueName]:
        existing = [name for name in self._spool.names(Folder.QUEUES) if is_queue_name(name)]
        return match_queues(self._patterns, existing)

    def _names(self, queue: QueueName) -> list[str]:
        try:
            return self._spool.names_in_queue(queue)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _key(self, queue: QueueName, message_id: MessageId) -> str:
        """By the time inside the id, else that of the seal, else mtime; then by id."""
        if is_v7(message_id):
            return message_id
        time_ns = id_time_ns(message_id)
        if time_ns is None:
            time_ns = self._published_ns(queue_path(queue, message_id))
        return order_key(message_id, time_ns)

    def _published_ns(self, name: str) -> int:
        """0 if it is gone."""
        path = self._spool.path(Folder.QUEUES, name)
        try:
            seal = Seal.unpack(self._spool.files.attribute(path, SEAL_ATTRIBUTE))
            return seal.published_ns if seal is not None else os.stat(path).st_mtime_ns
        except OSError:
            return 0
