"""replay: from a lake to a queue, each message once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from mq.names import is_queue_name
from pyspark_mq.pipeline.jobs.publishing import digest_of, publish_once
from pyspark_mq.pipeline.lake.columns import read_rows
from pyspark_mq.pipeline.lake.lake import Lake
from pyspark_mq.pipeline.places import QueuePlace
from pyspark_mq.pipeline.running.causes import JobRefused, reason_of
from pyspark_mq.pipeline.running.progress import ProgressLine

_ID_DIGITS = 32
_DATA_EXCEPTION = "22"
"""The class of SQL states for values that an expression cannot use, as a division by zero."""


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

    def period(self) -> tuple[datetime | None, datetime | None]:
        """Return the times between which messages were published. Raises JobRefused for them, and
        for what is not the name of a queue: nothing would fit it."""
        for queue in self.queues:
            if not is_queue_name(queue):
                raise JobRefused(
                    f"--queue {queue!r} is not the name of a queue; repeat --queue for each one"
                )
        since = None if self.since is None else parse_time("--since", self.since)
        until = None if self.until is None else parse_time("--until", self.until)
        if since is not None and until is not None and since >= until:
            raise JobRefused(f"--since {self.since!r} is not before --until {self.until!r}")
        return since, until


def parse_time(flag: str, text: str) -> datetime:
    """Parse a time, which is in UTC unless it says otherwise. Raises JobRefused."""
    try:
        found = datetime.fromisoformat(text.strip())
        return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        # In UTC it may lie before the year 1, or after 9999.
        raise JobRefused(
            f"{flag} {text!r} is not a time; write it as 2026-11-22 or '2026-11-22 08:00'"
        ) from None


def replay(spark: Any, place: QueuePlace, job: ReplayJob, line: ProgressLine) -> int:
    """Publish what the lake has, in the order of publication, as one write. Returns how many
    messages that were, 0 if this write was done before or no row fits. Messages that were damaged
    have no body and are left out. Raises JobRefused, and what the write raises."""
    place.require_target(job.to)
    lake = Lake(spark, job.lake)
    if not lake.folder.exists(""):
        raise JobRefused(f"there is no lake {job.lake}; mq-pipeline archive makes one")
    lake.finish()
    with lake.kept():
        return _replay(spark, place, job, line, lake)


def _replay(spark: Any, place: QueuePlace, job: ReplayJob, line: ProgressLine, lake: Lake) -> int:
    since, until = job.period()
    rows = read_rows(spark, lake, with_bodies=job.where is not None)
    if rows is None:
        return 0
    rows = rows.where(F.col("value").isNotNull())
    if job.queues:
        rows = rows.where(F.col("queue").isin(*job.queues))
    if since is not None:
        rows = rows.where(F.col("published_at") >= F.lit(since))
    if until is not None:
        rows = rows.where(F.col("published_at") < F.lit(until))
    if job.where is not None:
        rows = _filtered(rows, job.where)
    # A producer may have used an id again. One message can be there twice if the archive lost its
    # checkpoint.
    rows = rows.dropDuplicates(["queue", "id", "published_at"])
    message_id = F.col("id") if job.keeps_ids else _new_id(job.write_name)
    # Files of an older archive have no properties.
    more = [name for name in ("properties",) if name in rows.columns]
    # One task writes them: between tasks there is no order.
    ordered = rows.repartition(1).sortWithinPartitions("published_at", "id")
    messages = ordered.select(message_id.alias("id"), "value", "content_type", *more)
    # None of them has a null, and counting them does not read their bodies.
    counted = rows.select(F.lit("").alias("value"))
    try:
        return publish_once(messages, place, job.to, job.write_name, line, counted=counted)
    except PySparkException as error:
        if job.where is None or not (error.getSqlState() or "").startswith(_DATA_EXCEPTION):
            raise
        raise JobRefused(f"--where {job.where!r}: {reason_of(error)}") from None


def _filtered(rows: Any, where: str) -> Any:
    try:
        found = rows.where(where)
        # Spark looks at an expression when it is used.
        found.schema  # noqa: B018
    except PySparkException as error:
        raise JobRefused(
            f"--where {where!r}: {reason_of(error)}; the columns are {', '.join(rows.columns)}"
        ) from None
    return found


def _new_id(name: str) -> Any:
    """Return a column of ids other than the messages had, which their first queue may still know.
    They are the same in each run, and each message has its own."""
    time = F.unix_micros("published_at").cast("string")
    parts = F.concat_ws("/", F.lit(name), "queue", "id", time)
    return F.substring(F.sha2(parts, 256), 1, _ID_DIGITS)
