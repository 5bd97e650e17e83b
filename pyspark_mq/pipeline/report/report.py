"""report: what is in the queues, how old it is, how often it was received, what is dead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import functions as F

from mq.command.pace import duration_text
from mq.names import DEAD_SUFFIX
from pyspark_mq.options.options import BATCH_READ
from pyspark_mq.options.queue_patterns import is_pattern
from pyspark_mq.pipeline.places import QueuePlace
from pyspark_mq.pipeline.running.progress import ProgressLine, TaskCount, watching

AGES = (("under 1 min", 60), ("1 to 10 min", 600), ("10 min to 1 h", 3600), ("1 to 6 h", 21_600),
        ("6 h to 1 d", 86_400), ("1 to 7 d", 604_800), ("over 7 d", None))  # fmt: skip
"""The bars of the plot of ages: their names, and the age in seconds at which the next one
begins."""

COUNTS = ("0", "1", "2", "3", "4", "5 and more")
_GROUP = "mq-pipeline report"
_TASKS = 16
"""Several for each processor, so that there is progress to show."""

STATES = ("ready", "leased", "delayed", "dead")


@dataclass(slots=True)
class QueueReport:
    """One queue with its dead letters. Ages are in seconds, of messages that are not dead. `ages`
    and `counts` have a number of messages for each bar."""

    queue: str
    ready: int = 0
    leased: int = 0
    delayed: int = 0
    dead: int = 0
    bytes: int = 0
    oldest_seconds: float | None = None
    oldest_dead_seconds: float | None = None
    ages: list[int] = field(default_factory=lambda: [0] * len(AGES))
    counts: list[int] = field(default_factory=lambda: [0] * len(COUNTS))


@dataclass(slots=True)
class Report:
    """Everything that a report shows. The page and the table are drawn from it alone."""

    taken_at: str
    source: str
    queues: list[QueueReport]

    @property
    def messages(self) -> int:
        """How many there are, in any state."""
        return sum(getattr(each, state) for each in self.queues for state in STATES)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def take_report(
    spark: Any, place: QueuePlace, queues: str, line: ProgressLine, now: datetime | None = None
) -> Report:
    """Look at the queues and change nothing. Raises BadOption, QueueNotFound for a queue that is
    named and does not exist, and what the source raises."""
    now = now or datetime.now(UTC)
    waiting = place.count_ready(queues, BATCH_READ)
    found: dict[str, QueueReport] = {}
    frame = _read(spark, place, queues)
    for name in _named(queues):
        _of(found, name)
    with watching(line, TaskCount(spark, _GROUP, waiting)):
        spark.sparkContext.setJobGroup(_GROUP, "what is in the queues")
        for row in _grouped(frame, now):
            _add(found, row)
    source = place.root or place.url or ""
    taken_at = now.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Report(taken_at, source, [found[name] for name in sorted(found)])


def _named(queues: str) -> list[str]:
    names = [each.strip() for each in queues.split(",") if each.strip()]
    return [name for name in names if not is_pattern(name)]


def _read(spark: Any, place: QueuePlace, queues: str) -> Any:
    reader = spark.read.format("mq").options(**place.options(is_staged=False))
    if place.url is None:
        reader = reader.option("numPartitions", _TASKS).option("bodies", "false")
    if queues:
        reader = reader.option("queue", queues)
    return reader.option("states", ",".join(STATES)).load()


def _grouped(frame: Any, now: datetime) -> list[Any]:
    """Return a row for each queue, state, bar of the ages and bar of the counts."""
    age = F.lit(now).cast("timestamp").cast("double") - F.col("published_at").cast("double")
    age = F.greatest(age, F.lit(0.0))
    bar = F.lit(len(AGES) - 1)
    for number, (_, limit) in reversed(list(enumerate(AGES))):
        if limit is not None:
            bar = F.when(age < limit, number).otherwise(bar)
    count_bar = F.least(F.col("receive_count"), F.lit(len(COUNTS) - 1))
    rows = frame.select("queue", "state", "length", age.alias("age"), bar.alias("age_bar"),
                        count_bar.alias("count_bar"))  # fmt: skip
    totals = rows.groupBy("queue", "state", "age_bar", "count_bar").agg(
        F.count("*").alias("messages"), F.sum("length").alias("bytes"), F.max("age").alias("oldest")
    )
    return list(totals.collect())


def _of(found: dict[str, QueueReport], queue: str) -> QueueReport:
    """Return the report of a queue, to which its dead letters belong."""
    name = queue.removesuffix(DEAD_SUFFIX)
    return found.setdefault(name, QueueReport(name))


def _add(found: dict[str, QueueReport], row: Any) -> None:
    report = _of(found, row.queue)
    setattr(report, row.state, getattr(report, row.state) + row.messages)
    report.bytes += row.bytes
    if row.state == "dead":
        report.oldest_dead_seconds = max(row.oldest, report.oldest_dead_seconds or 0.0)
        return
    report.oldest_seconds = max(row.oldest, report.oldest_seconds or 0.0)
    report.ages[row.age_bar] += row.messages
    report.counts[row.count_bar] += row.messages


COLUMNS = ("queue", *STATES, "bytes", "oldest", "oldest dead")


def table_rows(report: Report) -> list[tuple[str, ...]]:
    """Return the table as text, a row for each queue and one for their sum."""
    total = QueueReport("all")
    for each in report.queues:
        for name in (*STATES, "bytes"):
            setattr(total, name, getattr(total, name) + getattr(each, name))
    total.oldest_seconds = _most(each.oldest_seconds for each in report.queues)
    total.oldest_dead_seconds = _most(each.oldest_dead_seconds for each in report.queues)
    return [_table_row(each) for each in (*report.queues, total)]


def _table_row(report: QueueReport) -> tuple[str, ...]:
    counts = (getattr(report, name) for name in (*STATES, "bytes"))
    ages = (report.oldest_seconds, report.oldest_dead_seconds)
    return (report.queue, *(f"{each:,}" for each in counts), *map(_age_text, ages))


def _most(seconds: Iterable[float | None]) -> float | None:
    return max((each for each in seconds if each is not None), default=None)


def _age_text(seconds: float | None) -> str:
    return "-" if seconds is None else duration_text(seconds)


def table_text(report: Report) -> str:
    """Return the table for a terminal: queues to the left, numbers to the right."""
    rows: Sequence[tuple[str, ...]] = [COLUMNS, *table_rows(report)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS))]
    lines = []
    for row in rows:
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
