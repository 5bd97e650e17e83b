"""Rows as messages, without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from mq.errors import InvalidRequest
from pyspark_mq.options.option_values import BadOption
from pyspark_mq.writing.write_columns import check_columns, drafts_of


def rows_of(**columns: list[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_a_row_goes_to_the_queue_that_it_names_or_to_that_of_the_option() -> None:
    rows = rows_of(value=["one", "two"], queue=["returns", None])

    drafts = list(drafts_of(iter([rows]), ("orders",)))

    assert [(each.queue, each.body) for each in drafts] == [("returns", b"one"), ("orders", b"two")]


def test_a_string_that_is_not_utf_8_keeps_its_bytes() -> None:
    bodies = [b"caf\xe9", "café".encode(), b""]
    rows = pa.record_batch({"value": pa.array(bodies).view(pa.string())})

    assert [each.body for each in drafts_of(iter([rows]), ("orders",))] == bodies


def test_a_row_for_a_fifo_queue_is_refused() -> None:
    rows = rows_of(value=["one"], queue=["orders.fifo"])

    with pytest.raises(InvalidRequest, match=r"column queue: orders\.fifo is a FIFO queue"):
        list(drafts_of(iter([rows]), ()))


def test_a_queue_is_not_overwritten_by_a_batch_or_a_stream_of_complete_results() -> None:
    with pytest.raises(BadOption, match=r'mode\("append"\), or outputMode\("append"\)'):
        check_columns(StructType().add("value", "string"), ("orders",), overwrite=True)
