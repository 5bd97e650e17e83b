"""archive: messages from queues to a lake, each once, by queue and day."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F

from mq.errors import MQError
from pyspark_mq.pipeline.lake import Lake
from pyspark_mq.pipeline.places import QueuePlace
from pyspark_mq.pipeline.progress import ProgressLine

POLL_SECONDS = 0.5
COMPACT_AFTER_BATCHES = 100
"""How often an archive that goes on looks for small files."""


class ArchiveFailed(MQError):
    """The query ended with an error."""


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


def archive(spark: Any, place: QueuePlace, job: ArchiveJob, line: ProgressLine) -> int:
    """Run until all that was ready is in the lake, or for ever. Returns how many messages went
    there. They are durable, and gone from their queues. Raises ArchiveFailed, and KeyboardInterrupt
    after the query has stopped; the next run goes on where this one ended."""
    lake = Lake(spark, job.lake)
    lake.finish()
    query = _start(spark, place, job, lake)
    counter = BatchCounter()
    try:
        while not query.awaitTermination(POLL_SECONDS):
            counter.count(query.recentProgress)
            line.tell(counter.messages, counter.waiting)
        counter.count(query.recentProgress)
    except BaseException as error:
        _stop(query)
        counter.count(query.recentProgress)
        if isinstance(error, KeyboardInterrupt):
            line.end(counter.messages, ", interrupted: run it again to go on")
            raise
        raise ArchiveFailed(reason_of(error)) from error
    if job.is_once:
        lake.compact()
    return counter.messages


def _start(spark: Any, place: QueuePlace, job: ArchiveJob, lake: Lake) -> Any:
    reader = spark.readStream.format("mq").options(**place.options())
    reader = reader.option("queue", job.queues).option("group", job.group)
    reader = reader.option("maxMessagesPerTrigger", job.batch_messages)
    reader = reader.option("takeover", str(job.takes_over).lower())
    writer = reader.load().writeStream.foreachBatch(_adder(lake, job))
    writer = writer.option("checkpointLocation", lake.checkpoint)
    if job.is_once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{job.every_seconds} seconds").start()


def _adder(lake: Lake, job: ArchiveJob) -> Callable[[Any, int], None]:
    def add(frame: Any, batch: int) -> None:
        lake.add(lake_rows(frame, job.schema), batch)
        if not job.is_once and batch % COMPACT_AFTER_BATCHES == COMPACT_AFTER_BATCHES - 1:
            lake.compact()

    return add


def lake_rows(frame: Any, schema: str | None) -> Any:
    """Return the columns of the lake. With a schema the JSON body is in `body`; a body that does
    not fit it is in `bad_body` as text, and `body` has what could be read of it."""
    rows = frame.select(
        "queue",
        F.date_format("published_at", "yyyy-MM-dd").alias("day"),
        "id",
        "value",
        "content_type",
        "published_at",
        "receive_count",
        "length",
        "properties",
    )
    if schema is None:
        return rows
    read = F.from_json(
        F.col("value").cast("string"),
        f"{schema}, {_BAD} string",
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BAD},
    )
    rows = rows.withColumn("body", read)
    bad = F.col(f"body.{_BAD}")
    return rows.withColumn("bad_body", bad).withColumn("body", F.col("body").dropFields(_BAD))


_BAD = "_bad"


class BatchCounter:
    """Counts the messages of a query's batches, each batch once."""

    def __init__(self) -> None:
        self.messages = 0
        self.waiting: int | None = None
        self._last = -1

    def count(self, recent: list[Any]) -> None:
        for batch in recent:
            if batch["batchId"] > self._last:
                self._last = batch["batchId"]
                self.messages += batch["numInputRows"]
                self.waiting = _waiting(batch)


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


def reason_of(error: BaseException) -> str:
    """Return the cause, which Spark wraps in other errors: the last line that names an error of
    Python, or else one of Java."""
    text = str(error)
    named = [line.strip(" :").partition(": ") for line in text.splitlines() if ": " in line]
    for endings in (_OF_PYTHON, _OF_JAVA):
        causes = [cause for kind, _, cause in named if kind.rpartition(".")[2].endswith(endings)]
        if causes:
            return causes[-1]
    return (text.splitlines() or [type(error).__name__])[0]


_OF_PYTHON = ("Error", "Option", "NotFound", "Refused", "Answer", "Unavailable", "NotForwarded")
_OF_JAVA = ("Exception",)
