"""A batch read by url: it looks at messages and takes nothing, with a task for each queue."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from mq.client import Client, MessageNotFound, Peeked, QueueNotFound
from mq.client.messages import PeekedState
from mq.config import MAX_ANSWER_MESSAGES, MAX_SPARK_MESSAGE_BYTES
from mq.names import DEAD_SUFFIX
from mq.times import in_us
from pyspark_mq.by_url.servers import ServerChoice
from pyspark_mq.options.addresses import Addresses
from pyspark_mq.options.options import Options
from pyspark_mq.portable import Portable
from pyspark_mq.reading.read_columns import (
    MAX_RECEIVE_COUNT,
    MessageRow,
    refuse_damaged,
    to_batches,
)

_HIDDEN: tuple[PeekedState, ...] = ("leased", "delayed")


class PeekedQueue(InputPartition):
    """The queue that one task reads, and the states in which it looks at messages, one after the
    other."""

    def __init__(self, queue: str, looks: tuple[PeekedState, ...]) -> None:
        self.queue = queue
        self.looks = looks


class PeekReader(Portable, DataSourceReader):
    def __init__(self, options: Options) -> None:
        assert options.addresses is not None
        self._addresses: Addresses = options.addresses
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each queue, and for its dead letters if they are asked for and
        there are any. Raises QueueNotFound, ClientError."""
        states = self._options.states
        parts: dict[str, PeekedQueue] = {}
        with ServerChoice(self._addresses) as servers:
            for queue in self._options.queues:
                servers.counts(queue)
                dead = queue.removesuffix(DEAD_SUFFIX) + DEAD_SUFFIX
                are_dead = queue == dead and "dead" in states
                if looks := _looks((*states, "ready") if are_dead else states):
                    parts[queue] = PeekedQueue(queue, looks)
                if "dead" in states and dead not in parts and _has_queue(servers, dead):
                    parts[dead] = PeekedQueue(dead, ("ready",))
        return [*parts.values()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PeekedQueue)
        with ServerChoice(self._addresses) as servers:
            yield from to_batches(self._rows(servers, partition))

    def _rows(self, servers: ServerChoice, part: PeekedQueue) -> Iterator[MessageRow]:
        for peeked in _once_each(servers, part):
            row = _row(part.queue, peeked)
            if row.value is None and self._options.is_failfast:
                refuse_damaged(row, f"{part.queue}/{row.id}")
            yield row


def _looks(states: Collection[str]) -> tuple[PeekedState, ...]:
    """Return in which states to look, one after the other. A message that is received or comes back
    once while the queue is read is found in one of them."""
    hidden = tuple(each for each in _HIDDEN if each in states)
    if "ready" not in states:
        return hidden
    return (*hidden, "ready", *hidden)


def _has_queue(servers: ServerChoice, queue: str) -> bool:
    try:
        servers.counts(queue)
    except QueueNotFound:
        return False
    return True


def _once_each(servers: ServerChoice, part: PeekedQueue) -> Iterator[Peeked]:
    """Yield messages in the first state in which they are found."""
    if len(part.looks) == 1:
        yield from _peeked(servers, part.queue, part.looks[0])
        return
    seen: set[str] = set()
    for state in part.looks:
        for each in _peeked(servers, part.queue, state):
            if each.id not in seen:
                seen.add(each.id)
                yield each


def _peeked(servers: ServerChoice, queue: str, state: PeekedState) -> Iterator[Peeked]:
    """Yield messages of one state from the oldest on. One that goes while the queue is read is left
    out, or was read."""
    seen: list[str] = []
    while True:
        found = servers.ask(partial(_peek, queue=queue, state=state, seen=seen))
        if not found:
            return
        yield from found
        seen = [each.id for each in found]


def _peek(mq: Client, queue: str, state: PeekedState, seen: list[str]) -> list[Peeked]:
    """Return the messages that follow the last one that was seen. If nothing is left of that one,
    as when it had its producer's id and was reaped, those before it are tried."""
    for last in reversed(seen):
        try:
            return mq.queue(queue).peek(MAX_ANSWER_MESSAGES, after=last, state=state)
        except MessageNotFound:
            continue
    if seen:
        raise MessageNotFound(f"queue {queue} was emptied while it was read; read it again")
    return mq.queue(queue).peek(MAX_ANSWER_MESSAGES, state=state)


def _row(queue: str, peeked: Peeked) -> MessageRow:
    return MessageRow(
        queue,
        peeked.id,
        None if peeked.is_damaged or len(peeked.body) > MAX_SPARK_MESSAGE_BYTES else peeked.body,
        peeked.content_type,
        in_us(peeked.published_at),
        min(peeked.receive_count or 0, MAX_RECEIVE_COUNT),
        "dead" if peeked.state == "ready" and queue.endswith(DEAD_SUFFIX) else peeked.state,
        len(peeked.body),
        sorted(peeked.properties.items()),
    )
