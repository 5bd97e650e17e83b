"""A batch read by url: it looks at ready messages and takes nothing, with a task for each queue."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from mq.client import Client, MessageNotFound, Peeked
from mq.config import MAX_FETCH_MESSAGES, MAX_SPARK_MESSAGE_BYTES
from mq.names import DEAD_SUFFIX
from pyspark_mq.by_url.addresses import Addresses
from pyspark_mq.by_url.servers import ServerChoice
from pyspark_mq.columns import MAX_RECEIVE_COUNT, MessageRow, refuse_damaged, to_batches
from pyspark_mq.options import Options
from pyspark_mq.portable import Portable

_EPOCH = datetime.fromtimestamp(0, UTC)


class PeekedQueue(InputPartition):
    """The queue that one task reads."""

    def __init__(self, queue: str) -> None:
        self.queue = queue


class PeekReader(Portable, DataSourceReader):
    def __init__(self, options: Options) -> None:
        assert options.addresses is not None
        self._addresses: Addresses = options.addresses
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each queue. Raises QueueNotFound, ClientError."""
        with ServerChoice(self._addresses) as servers:
            for queue in self._options.queues:
                servers.counts(queue)
        return [PeekedQueue(queue) for queue in self._options.queues]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PeekedQueue)
        with ServerChoice(self._addresses) as servers:
            yield from to_batches(self._rows(servers, partition.queue))

    def _rows(self, servers: ServerChoice, queue: str) -> Iterator[MessageRow]:
        for row in _rows(servers, queue):
            if row.value is None and self._options.is_failfast:
                refuse_damaged(row, f"{queue}/{row.id}")
            yield row


def _rows(servers: ServerChoice, queue: str) -> Iterator[MessageRow]:
    """Yield messages from the oldest on. A message that goes while the queue is read is left out,
    or was read."""
    seen: list[str] = []
    while True:
        found = servers.ask(partial(_peek, queue=queue, seen=seen))
        if not found:
            return
        for each in found:
            yield _row(queue, each)
        seen = [each.id for each in found]


def _peek(mq: Client, queue: str, seen: list[str]) -> list[Peeked]:
    """Return the messages that follow the last one that was seen. If nothing is left of that one,
    as when it had its producer's id and was reaped, those before it are tried."""
    for last in reversed(seen):
        try:
            return mq.queue(queue).peek(MAX_FETCH_MESSAGES, after=last)
        except MessageNotFound:
            continue
    if seen:
        raise MessageNotFound(f"queue {queue} was emptied while it was read; read it again")
    return mq.queue(queue).peek(MAX_FETCH_MESSAGES)


def _row(queue: str, peeked: Peeked) -> MessageRow:
    return MessageRow(
        queue,
        peeked.id,
        None if peeked.is_damaged or len(peeked.body) > MAX_SPARK_MESSAGE_BYTES else peeked.body,
        peeked.content_type,
        (peeked.published_at - _EPOCH) // timedelta(microseconds=1),
        min(peeked.receive_count or 0, MAX_RECEIVE_COUNT),
        "dead" if queue.endswith(DEAD_SUFFIX) else "ready",
        len(peeked.body),
        sorted(peeked.properties.items()),
    )
