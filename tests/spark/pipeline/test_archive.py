"""What an archive tells of its query."""

from __future__ import annotations

import pytest

from pyspark_mq.pipeline.archive import BatchCounter, reason_of

OF_PYTHON = """[STREAM_FAILED] Query [id = 9] terminated with exception: Traceback:
  File "/x/driver.py", line 3, in fence
    raise self._fenced()
mq.errors.ClaimError: group archive belongs to query 7, and this is another one
 SQLSTATE: XXKST
=== Streaming Query ===
Current State: ACTIVE"""

OF_JAVA = """An error occurred while calling o41.mkdirs.
: java.io.IOException: Mkdirs failed to create file:/lake
\tat org.apache.hadoop.fs.X.y(X.java:3)"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (OF_PYTHON, "group archive belongs to query 7, and this is another one"),
        (OF_JAVA, "Mkdirs failed to create file:/lake"),
        ("it just failed\nhere", "it just failed"),
        ("", "RuntimeError"),
    ],
)
def test_the_cause_is_found_in_what_spark_wraps_around_it(text: str, reason: str) -> None:
    assert reason_of(RuntimeError(text)) == reason


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


def test_a_lag_that_is_not_told_is_not_known() -> None:
    counter = BatchCounter()

    counter.count([batch(0, 5, None)])

    assert (counter.messages, counter.waiting) == (5, None)
