"""What an archive tells of its query, and how it stops."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.java_gateway import ensure_callback_server_started

from pyspark_mq.pipeline.jobs.archive import ArchiveJob, BatchCounter, archive
from pyspark_mq.pipeline.lake.lake import Lake
from pyspark_mq.pipeline.places import QueuePlace
from pyspark_mq.pipeline.running.progress import ProgressLine
from tests.support.lone_root import Root
from tests.support.processes import wait_until


def batch(number: int, rows: int, offset: object) -> dict[str, object]:
    return {"batchId": number, "numInputRows": rows, "sources": [{"latestOffset": offset}]}


def test_each_batch_is_counted_once_with_the_lag_of_the_last() -> None:
    counter = BatchCounter()
    first, second = batch(0, 5, '{"seq": 1, "waiting": 7}'), batch(1, 3, {"seq": 2, "waiting": 4})

    counter.count([first])
    assert (counter.messages, counter.waiting) == (5, 7)
    counter.count([first, second])
    counter.count([first, second])

    assert (counter.messages, counter.waiting) == (8, 4)


def test_a_batch_that_was_reported_before_it_had_messages_is_counted() -> None:
    counter = BatchCounter()
    idle = [batch(1, 0, {"seq": 0, "waiting": 0}), batch(1, 0, {"seq": 0, "waiting": 2})]

    counter.count(idle)
    assert (counter.messages, counter.waiting) == (0, 2)
    counter.count([*idle, batch(1, 5, {"seq": 1, "waiting": 3})])
    counter.count([*idle, batch(1, 5, {"seq": 1, "waiting": 3}), batch(2, 0, None)])

    assert (counter.messages, counter.waiting) == (5, None)


def test_a_lag_that_is_not_measured_is_not_known() -> None:
    counter = BatchCounter()

    counter.count([batch(0, 5, None)])

    assert (counter.messages, counter.waiting) == (5, None)


def test_before_the_first_batch_the_lag_is_what_was_counted() -> None:
    counter = BatchCounter(12)

    counter.count([])

    assert (counter.messages, counter.waiting) == (0, 12)


class _Uncaught:
    """What ends a thread of the JVM, and is printed then."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def uncaughtException(self, _: object, error: Any) -> None:
        self.errors.append(error.toString())

    class Java:
        implements = ("java.lang.Thread$UncaughtExceptionHandler",)


@pytest.fixture
def uncaught(spark: Any) -> Iterator[list[str]]:
    ensure_callback_server_started(spark.sparkContext._gateway)
    handler, thread = _Uncaught(), spark._jvm.java.lang.Thread
    thread.setDefaultUncaughtExceptionHandler(handler)
    yield handler.errors
    thread.setDefaultUncaughtExceptionHandler(None)


def test_a_batch_that_fails_because_it_was_stopped_overflows_no_stack(
    spark: Any,
    lone_root: Root,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    uncaught: list[str],
) -> None:
    """What a JVM says of a job that was stopped has thousands of letters."""
    lone_root.put("orders", b"one")
    stopping = Event()

    def fail_when_stopped(*_: object) -> None:
        [query] = spark.streams.active
        stopping.set()
        wait_until(lambda: not query.isActive, 60)
        spark._jvm.java.lang.Class.forName("x" * 50_000)

    monkeypatch.setattr(Lake, "add", fail_when_stopped)
    job = ArchiveJob("orders", str(tmp_path / "lake"), "archive", True, 1.0, 1000)
    line = ProgressLine("job", StringIO())

    assert archive(spark, QueuePlace(root=str(lone_root.path)), job, line, stopping) == 0

    assert uncaught == []
