"""Publishing rows to a queue as one write with a name: all of it counts or nothing, once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from mq.lifecycle import Folder
from mq.spool.spark.jobs import STAGE, TXN
from pyspark_mq.options.options import BATCH_WRITE
from pyspark_mq.pipeline.places import WRITE_VERSION, QueuePlace
from pyspark_mq.pipeline.running.causes import JobRefused
from pyspark_mq.pipeline.running.progress import ProgressLine, watching


def digest_of(asked: object) -> str:
    return hashlib.sha256(repr(asked).encode()).hexdigest()[:16]


def publish_once(
    messages: Any,
    place: QueuePlace,
    queue: str,
    name: str,
    line: ProgressLine,
    *,
    counted: Any | None = None,
) -> int:
    """Publish rows as one transaction of that name. Returns how many that were: 0 if it was done
    before, or if there are none, which does not use the name up. Run again after a crash, it does
    what is left. `counted` has the same rows, where those cost less to count. Raises JobRefused if
    a row has no body: then nothing is published."""
    if place.has_written(name):
        # This finishes the write even if its driver died before everything was brought.
        _write(messages.limit(0), place, queue, name)
        return 0
    rows = messages if counted is None else counted
    total, bodies = rows.agg(F.count("*"), F.count("value")).first()
    if bodies < total:
        raise JobRefused(
            f"{total - bodies:,} of {total:,} rows have null where their message should be; "
            "nothing was published. Leave them out, or name another column with --body"
        )
    if total:
        with watching(line, WrittenCount(place, queue, name, total)):
            _write(messages, place, queue, name)
    return int(total)


def _write(messages: Any, place: QueuePlace, queue: str, name: str) -> None:
    writer = messages.write.format("mq").options(**place.options()).option("queue", queue)
    writer = writer.option("txnAppId", name).option("txnVersion", str(WRITE_VERSION))
    writer.mode("append").save()


class WrittenCount:
    """How far a write is, as its files show. A message counts half when it is staged, and whole
    when it is in its queue."""

    def __init__(self, place: QueuePlace, queue: str, name: str, total: int) -> None:
        options = place.options_for(queue, BATCH_WRITE)
        self._spark = options.root / Folder.SPARK
        # By url what is committed waits there for its server.
        self._outgoing = None if options.addresses is None else options.root / Folder.QUEUES / queue
        self._name = name
        self.total = total
        self._is_bringing = False

    def done(self) -> int:
        """Return how many messages are done."""
        staged = _files_below(self._spark / STAGE / self._name / str(WRITE_VERSION))
        self._is_bringing = self._is_bringing or self._is_committed()
        if not self._is_bringing:
            return min(staged, self.total) // 2
        left = staged + (_entries(self._outgoing) if self._outgoing is not None else 0)
        return self.total - min(left, self.total) // 2

    def _is_committed(self) -> bool:
        return (self._spark / TXN / self._name / str(WRITE_VERSION)).exists()


def _files_below(folder: Path) -> int:
    """Return how many files the folders in a folder have."""
    return sum(_entries(Path(each)) for each in _scan(folder))


def _entries(folder: Path) -> int:
    return sum(1 for _ in _scan(folder))


def _scan(folder: Path) -> Iterator[str]:
    """Yield the paths in a folder, and none if it is gone: others work on it."""
    try:
        with os.scandir(folder) as found:
            for each in found:
                yield each.path
    except (FileNotFoundError, NotADirectoryError):
        return
