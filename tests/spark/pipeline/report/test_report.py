"""What a report reads of a root."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import inotify_simple
import pytest

from pyspark_mq.pipeline.places import QueuePlace
from pyspark_mq.pipeline.report.report import take_report
from pyspark_mq.pipeline.running.progress import ProgressLine
from tests.support.lone_root import Root


@pytest.fixture
def reads() -> Iterator[inotify_simple.INotify]:
    """Hears of each read of a file, whichever process makes it, and not of looks at names, status
    and attributes."""
    with inotify_simple.INotify(nonblocking=True) as made:
        yield made


def test_a_report_reads_no_bodies(
    spark: Any, lone_root: Root, reads: inotify_simple.INotify
) -> None:
    lone_root.put("orders", b"ready", b"also ready")
    lone_root.put("orders", b"leased", folder="delay", lease=5, count=1)
    lone_root.put("orders.dead", b"dead")
    for folder in ("queues/orders", "queues/orders.dead", "delay"):
        reads.add_watch(lone_root.path / folder, inotify_simple.flags.ACCESS)

    taken = take_report(
        spark, QueuePlace(root=str(lone_root.path)), "", ProgressLine("job", StringIO())
    )
    read_by_report = names_in(reads)
    rows = spark.read.format("mq").option("root", str(lone_root.path)).load().collect()

    assert (taken.messages, taken.queues[0].bytes) == (4, 25)
    assert read_by_report == []
    assert len(names_in(reads)) == len(rows) > 0  # So reads are heard of.


def names_in(reads: inotify_simple.INotify) -> list[str]:
    """The files that were read since the last call; a folder is listed by reading it."""
    told = reads.read(timeout=0)
    return sorted({each.name for each in told if not each.mask & inotify_simple.flags.ISDIR})
