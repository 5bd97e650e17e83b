"""replay and load: from a lake, or from other files, to a queue, each row once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType

from mq.errors import MQError
from pyspark_mq.pipeline.lake import Lake
from pyspark_mq.pipeline.places import WRITE_VERSION, QueuePlace
from pyspark_mq.pipeline.progress import ProgressLine, watching_tasks

FORMATS = ("parquet", "csv", "json")
_ID_DIGITS = 32


class NothingToWrite(MQError):
    """The files have no column that could be a body."""


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """The request of `replay`. Times are times of publication, in UTC; `where` is an expression of
    Spark's SQL over the lake's columns."""

    lake: str
    to: str
    queues: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    where: str | None = None
    keeps_ids: bool = False
    name: str | None = None

    @property
    def write_name(self) -> str:
        """The name of the write. It is the same for the same request, which is therefore written
        once however often it is run."""
        if self.name is not None:
            return f"replay-{self.name}"
        asked = (self.lake, self.to, self.queues, self.since, self.until, self.where,
                 self.keeps_ids)  # fmt: skip
        return f"replay-{digest_of(asked)}"


@dataclass(frozen=True, slots=True)
class LoadJob:
    """The request of `load`. `body` is the column with the message; None means the column `value`,
    or else the whole row as JSON."""

    paths: tuple[str, ...]
    format: str
    to: str
    body: str | None = None
    name: str | None = None

    @property
    def write_name(self) -> str:
        if self.name is not None:
            return f"load-{self.name}"
        return f"load-{digest_of((self.paths, self.format, self.to, self.body))}"


def digest_of(asked: object) -> str:
    return hashlib.sha256(repr(asked).encode()).hexdigest()[:16]


def replay(spark: Any, place: QueuePlace, job: ReplayJob, line: ProgressLine) -> int:
    """Publish what the lake has, in the order of publication, as one write. Returns how many
    messages that were, 0 if this write was done before. Messages that were damaged have no body and
    are left out."""
    Lake(spark, job.lake).finish()
    rows = spark.read.option("mergeSchema", "true").parquet(job.lake)
    rows = rows.where(F.col("value").isNotNull())
    if job.queues:
        rows = rows.where(F.col("queue").isin(*job.queues))
    if job.since is not None:
        rows = rows.where(F.col("published_at") >= F.lit(job.since).cast("timestamp"))
    if job.until is not None:
        rows = rows.where(F.col("published_at") < F.lit(job.until).cast("timestamp"))
    if job.where is not None:
        rows = rows.where(job.where)
    message_id = F.col("id") if job.keeps_ids else _new_id(job.write_name)
    # Files of an older archive have no properties.
    more = [name for name in ("properties",) if name in rows.columns]
    messages = rows.orderBy("published_at", "id").select(
        message_id.alias("id"), "value", "content_type", *more
    )
    return write_once(messages, place, job.to, job.write_name, line)


def _new_id(name: str) -> Any:
    """Return a column of ids other than the messages had, which their first queue may still know.
    They are the same in each run."""
    parts = F.concat_ws("/", F.lit(name), "queue", "id")
    return F.substring(F.sha2(parts, 256), 1, _ID_DIGITS)


def load(spark: Any, place: QueuePlace, job: LoadJob, line: ProgressLine) -> int:
    """Publish the rows of some files as one write. Returns how many messages that were, 0 if this
    write was done before. Raises NothingToWrite."""
    return write_once(_messages(spark, job), place, job.to, job.write_name, line)


def _messages(spark: Any, job: LoadJob) -> Any:
    paths = list(job.paths)
    if job.format == "json" and job.body is None:
        # Each line is a message as it is.
        lines = spark.read.text(paths).where(F.length(F.trim("value")) > 0)
        return lines.withColumn("content_type", F.lit("application/json"))
    reader = spark.read.option("header", "true") if job.format == "csv" else spark.read
    rows = reader.format(job.format).load(paths)
    body = job.body or ("value" if "value" in rows.columns else None)
    if body is None:
        whole = F.to_json(F.struct(*rows.columns)).alias("value")
        return rows.select(whole, F.lit("application/json").alias("content_type"))
    if body not in rows.columns:
        raise NothingToWrite(
            f"there is no column {body} in {', '.join(paths)}; there are {', '.join(rows.columns)}"
        )
    is_body = isinstance(rows.schema[body].dataType, BinaryType | StringType)
    value = F.col(body) if is_body else F.col(body).cast("string")
    others = [name for name in ("id", "content_type") if name in rows.columns and name != body]
    return rows.select(value.alias("value"), *others)


def write_once(messages: Any, place: QueuePlace, queue: str, name: str, line: ProgressLine) -> int:
    """Write messages as one transaction with that name. Run again after a crash, it does what is
    left, which may be nothing."""
    if place.has_written(name):
        # This finishes the write even if its driver died before everything was brought.
        _write(messages.limit(0), place, queue, name)
        return 0
    total = int(messages.count())
    with watching_tasks(messages.sparkSession, line, total):
        _write(messages, place, queue, name)
    return total


def _write(messages: Any, place: QueuePlace, queue: str, name: str) -> None:
    writer = messages.write.format("mq").options(**place.options()).option("queue", queue)
    writer = writer.option("txnAppId", name).option("txnVersion", str(WRITE_VERSION))
    writer.mode("append").save()
