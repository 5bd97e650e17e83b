"""archive: messages from queues to a lake, each once, by queue and day."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql.types import StructType

from pyspark_mq.options.options import STREAM_READ
from pyspark_mq.pipeline.lake.columns import keep_columns, lake_rows, parse_schema
from pyspark_mq.pipeline.lake.lake import Lake
from pyspark_mq.pipeline.places import QueuePlace
from pyspark_mq.pipeline.running.causes import failure_of
from pyspark_mq.pipeline.running.progress import ProgressLine

POLL_SECONDS = 0.5
COMPACT_AFTER_BATCHES = 100
"""How often an archive that goes on looks for small files."""


@dataclass(frozen=True, slots=True)
class ArchiveJob:
    """The request of `archive`. `schema` is that of JSON bodies, as DDL."""

    queues: str
    lake: str
    group: str
    is_once: bool
    every_seconds: float
    batch_messages: int
    schema: str | None = None
    takes_over: bool = False


def archive(
    spark: Any, place: QueuePlace, job: ArchiveJob, line: ProgressLine, stopping: Event
) -> int:
    """Run until all that was ready is in the lake, or until `stopping` is set. Returns how many
    messages went there. They are durable, and gone from their queues. Raises CommandFailed; the
    next run goes on where this one ended."""
    waiting = place.count_ready(job.queues, STREAM_READ)
    schema = None if job.schema is None else parse_schema(spark, job.schema)
    lake = Lake(spark, job.lake, line.say)
    with lake.held():
        if schema is not None:
            keep_columns(spark, lake.folder, schema)
        query = _start(spark, place, job, lake, schema, stopping=stopping)
        counter = BatchCounter(waiting)
        try:
            while not (is_over := query.awaitTermination(POLL_SECONDS)) and not stopping.is_set():
                counter.count(query.recentProgress)
                line.tell(counter.messages, counter.waiting)
        except Exception as error:
            raise failure_of(error) from error
        finally:
            _stop(query)
            with suppress(Py4JError, ConnectionError):  # The JVM is gone.
                counter.count(query.recentProgress)
        if is_over and job.is_once and not stopping.is_set():
            lake.compact()
    return counter.messages


def _start(
    spark: Any,
    place: QueuePlace,
    job: ArchiveJob,
    lake: Lake,
    schema: StructType | None,
    *,
    stopping: Event,
) -> Any:
    reader = spark.readStream.format("mq").options(**place.options())
    reader = reader.option("queue", job.queues).option("group", job.group)
    reader = reader.option("maxMessagesPerTrigger", job.batch_messages)
    reader = reader.option("takeover", str(job.takes_over).lower())

    def add(frame: Any, batch: int) -> None:
        try:
            lake.add(lake_rows(frame, schema), batch)
            if not job.is_once and batch % COMPACT_AFTER_BATCHES == COMPACT_AFTER_BATCHES - 1:
                lake.compact()
        except Exception:
            if not stopping.is_set():
                raise
            # Of a query that is stopped Spark matches the whole text with a regular expression,
            # which overflows its stack if that has the JVM's part of a traceback.
            raise _Stopped from None

    writer = reader.load().writeStream.foreachBatch(add)
    writer = writer.option("checkpointLocation", lake.checkpoint)
    if job.is_once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{job.every_seconds} seconds").start()


class _Stopped(Exception):
    """A batch failed, and the archive is stopping. The next run does the batch again."""


class BatchCounter:
    """Counts the messages of a query's batches, each batch once. `waiting` is what is left, at
    first what was counted before the query.

    While a query is idle, Spark reports the batch that is to come, without rows.
    """

    def __init__(self, waiting: int | None = None) -> None:
        self.messages = 0
        self.waiting = waiting
        self._last = -1

    def count(self, recent: list[Any]) -> None:
        for batch in recent:
            if batch["batchId"] > self._last:
                self.waiting = _waiting(batch)
                if batch["numInputRows"]:
                    self._last = batch["batchId"]
                    self.messages += batch["numInputRows"]


def _waiting(batch: Any) -> int | None:
    """Return the lag that the source reports."""
    try:
        offset = batch["sources"][0]["latestOffset"]
        return int((json.loads(offset) if isinstance(offset, str) else offset)["waiting"])
    except (LookupError, TypeError, ValueError):
        return None


def _stop(query: Any) -> None:
    try:
        query.stop()
    except Exception:
        # The query failed already, or the JVM is gone. The next run finishes what is left.
        pass
