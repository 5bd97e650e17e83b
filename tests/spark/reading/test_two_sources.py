"""A query with two sources of one group: both would read the first batch, and double each row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mq.errors import ClaimError
from pyspark_mq.options.options import STREAM_READ, parse_options
from pyspark_mq.reading.stream_read import StreamReader
from tests.support.lone_root import Root


def test_a_task_of_a_source_that_another_one_has_fenced_off_reads_nothing(lone_root: Root) -> None:
    lone_root.put("orders", b"one")
    given = {"root": str(lone_root.path), "queue": "orders"}
    readers = [StreamReader(parse_options(given, STREAM_READ)) for _ in range(2)]
    ends = []
    for each in readers:
        start = each.initialOffset()
        ends.append(each.latestOffset(start, each.getDefaultReadLimit()))
    [part] = readers[0].partitions(start, ends[0])

    with pytest.raises(ClaimError, match="only one source of one query at a time can read"):
        next(readers[0].read(part))

    assert ends == [{"seq": 1}, {"seq": 1}]
    for each in readers:
        each.stop()


def test_a_query_with_two_sources_of_one_group_is_refused_however_often_it_is_started(
    spark: Any, lone_root: Root, tmp_path: Path
) -> None:
    lone_root.make("refunds")
    lone_root.put("orders", b"one")
    lone_root.put("refunds", b"two")

    def read(queue: str) -> Any:
        given = {"root": str(lone_root.path), "queue": queue}
        return spark.readStream.format("mq").options(**given).load().select("value")

    writer = read("orders").union(read("refunds")).writeStream.format("parquet")
    writer = writer.option("path", str(tmp_path / "lake")).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))

    for _ in range(2):
        with pytest.raises(Exception, match="only one source of one query at a time can read"):
            writer.start().awaitTermination()

    assert not list((tmp_path / "lake").glob("*.parquet"))
