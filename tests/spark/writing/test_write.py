"""Writes to queues, in batches and streams: each row is one message, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException

from mq.disk.calls import CHAINS_AT_ONCE
from tests.support.lone_root import Root
from tests.support.messages import read_seal


def bodies(root: Root, queue: str = "orders") -> list[bytes]:
    return [path.read_bytes() for path in sorted((root.path / "queues" / queue).iterdir())]


def write(frame: Any, root: Root, **options: str) -> None:
    given = {"root": str(root.path), "queue": "orders"} | options
    frame.write.format("mq").options(**given).mode("append").save()


def staged(root: Root) -> list[str]:
    return root.names("spark/stage")


def test_each_row_is_a_message(spark: Any, lone_root: Root) -> None:
    write(spark.createDataFrame([("one",), ("two",), ("three",)], "value string"), lone_root)

    assert sorted(bodies(lone_root)) == [b"one", b"three", b"two"]
    assert staged(lone_root) == []


def test_rows_of_one_partition_keep_their_order(spark: Any, lone_root: Root) -> None:
    write(spark.range(0, 200, 1, 1).selectExpr("cast(id as string) value"), lone_root)

    assert bodies(lone_root) == [str(number).encode() for number in range(200)]


def test_columns_choose_queue_id_type_and_delay(
    spark: Any, lone_root: Root, start_server: Callable[..., Any]
) -> None:
    lone_root.make("returns")
    rows = [(bytearray(b"\x00now"), None, "a-1", "text/plain", None),
            (bytearray(b"later"), "returns", None, None, 3600.5)]  # fmt: skip
    columns = "value binary, queue string, id string, content_type string, delay double"

    write(spark.createDataFrame(rows, columns), lone_root)

    read = spark.read.format("mq").option("root", str(lone_root.path))
    found = {row.queue: row for row in read.option("states", "ready,delayed").load().collect()}
    assert (bytes(found["orders"].value), found["orders"].id) == (b"\x00now", "a-1")
    assert (found["orders"].content_type, found["orders"].state) == ("text/plain", "ready")
    assert (bytes(found["returns"].value), found["returns"].state) == (b"later", "delayed")
    [delayed] = (lone_root.path / "delay").iterdir()
    hidden_ns = delayed.stat().st_mtime_ns - read_seal(delayed).published_ns
    assert 3600.5 <= hidden_ns / 1e9 <= 3602


def test_no_rows_are_no_messages(spark: Any, lone_root: Root) -> None:
    write(spark.createDataFrame([], "value string"), lone_root)

    assert bodies(lone_root) == []


@pytest.mark.parametrize(
    ("columns", "options", "detail"),
    [
        ("val string", {}, "column val: unknown; there are value, queue, id, delay, content_type"),
        ("id string", {}, "column value: missing"),
        ("value int", {}, "column value: int, and it must be binary or string"),
        ("value string, delay string", {}, "column delay: string, and it must be a number"),
        ("value string", {"queue": ""}, "option queue: missing"),
        ("value string", {"queue": "a,b"}, "option queue: name one queue"),
        ("value string", {"queue": "orders*"}, "option queue: name one queue"),
        ("value string", {"group": "lake"}, "option group: not for this kind"),
        ("value string", {"txnVersion": "1"}, "txnAppId and txnVersion: give both or none"),
    ],
)
def test_what_cannot_be_written_is_named(
    spark: Any, lone_root: Root, columns: str, options: dict[str, str], detail: str
) -> None:
    with pytest.raises(Exception, match=detail):
        write(spark.createDataFrame([], columns), lone_root, **options)


def test_a_root_that_is_not_there_is_named_before_a_task_runs(spark: Any) -> None:
    writer = spark.createDataFrame([("one",)], "value string").write.format("mq")
    writer = writer.options(root="/nowhere", queue="orders").mode("append")

    with pytest.raises(AnalysisException, match="root /nowhere: there is no folder"):
        writer.save()


@pytest.mark.parametrize(
    ("row", "detail"),
    [
        ((None, None, None, None, None), "column value: null"),
        (("x", "refunds", None, None, None), "there is no queue refunds"),
        (("x", "../orders", None, None, None), "queue name '../orders'"),
        (("x", None, "a/b", None, None), "message id 'a/b'"),
        (("x", None, None, "text\nplain", None), "column content_type"),
        (("x", None, None, None, -1.0), "column delay: -1.0"),
    ],
)
def test_a_row_that_is_no_message_fails_the_write_and_nothing_is_written(
    spark: Any, lone_root: Root, row: tuple[Any, ...], detail: str
) -> None:
    columns = "value string, queue string, id string, content_type string, delay double"
    # Some rows are staged before the last.
    good = [("good", None, None, None, None)] * CHAINS_AT_ONCE
    frame = spark.createDataFrame([*good, row], columns).coalesce(1)

    with pytest.raises(Exception, match=detail):
        write(frame, lone_root)

    assert bodies(lone_root) == []
    assert staged(lone_root) == []


def test_a_queue_is_not_overwritten(spark: Any, lone_root: Root) -> None:
    frame = spark.createDataFrame([("one",)], "value string")
    writer = frame.write.format("mq").option("root", str(lone_root.path)).option("queue", "orders")

    with pytest.raises(Exception, match="a queue cannot be overwritten"):
        writer.mode("overwrite").save()


def test_a_transaction_is_written_once(spark: Any, lone_root: Root) -> None:
    first = spark.createDataFrame([("one",)], "value string")
    other = spark.createDataFrame([("other",)], "value string")

    write(first, lone_root, txnAppId="nightly", txnVersion="3")
    write(other, lone_root, txnAppId="nightly", txnVersion="3")
    write(other, lone_root, txnAppId="nightly", txnVersion="2")
    assert bodies(lone_root) == [b"one"]

    write(other, lone_root, txnAppId="nightly", txnVersion="4")
    write(other, lone_root, txnAppId="hourly", txnVersion="1")
    assert bodies(lone_root) == [b"one", b"other", b"other"]


def test_a_transaction_without_rows_is_done_as_well(spark: Any, lone_root: Root) -> None:
    write(spark.createDataFrame([], "value string"), lone_root, txnAppId="n", txnVersion="1")

    write(spark.createDataFrame([("x",)], "value string"), lone_root, txnAppId="n", txnVersion="1")

    assert bodies(lone_root) == []


def fail_once(folder: Path) -> Callable[[Any], Any]:
    """Each partition's first attempt fails after its rows were staged."""

    def rows(batches: Any) -> Any:
        context = TaskContext.get()
        yield from batches
        if context.attemptNumber() == 0:
            (folder / str(context.partitionId())).touch()
            raise RuntimeError("dies after it has written all")

    return rows


def test_a_task_that_fails_and_is_tried_again_after_a_shuffle_writes_once(
    spark: Any, lone_root: Root, tmp_path: Path
) -> None:
    died = tmp_path / "died"
    died.mkdir()
    frame = spark.range(0, 100, 1, 4).selectExpr("cast(id as string) value").repartition(2)

    write(frame.mapInArrow(fail_once(died), "value string"), lone_root)

    assert sorted(path.name for path in died.iterdir()) == ["0", "1"]
    assert sorted(bodies(lone_root)) == sorted(str(number).encode() for number in range(100))
    assert staged(lone_root) == []


def test_a_job_that_fails_writes_nothing(spark: Any, lone_root: Root) -> None:
    def rows(batches: Any) -> Any:
        yield from batches
        raise RuntimeError("always dies")

    frame = spark.range(10).selectExpr("cast(id as string) value")

    with pytest.raises(Exception, match="always dies"):
        write(frame.mapInArrow(rows, "value string"), lone_root)

    assert bodies(lone_root) == []
    assert staged(lone_root) == []


def copy_stream(spark: Any, root: Root, checkpoint: Path) -> Any:
    """From the queue `orders` to the queue `copies`, until nothing is left."""
    source = spark.readStream.format("mq").option("root", str(root.path)).option("queue", "orders")
    source = source.option("group", "copy").option("maxMessagesPerTrigger", "2").load()
    sink = source.select("value", "id").writeStream.format("mq").option("root", str(root.path))
    sink = sink.option("queue", "copies").option("checkpointLocation", str(checkpoint))
    query = sink.queryName("copy").trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def test_a_stream_from_queue_to_queue_writes_each_message_once(
    spark: Any, lone_root: Root, tmp_path: Path
) -> None:
    lone_root.make("copies")
    ids = lone_root.put("orders", b"one", b"two", b"three", b"four", b"five")

    query = copy_stream(spark, lone_root, tmp_path / "checkpoint")

    assert bodies(lone_root, "copies") == [b"one", b"two", b"three", b"four", b"five"]
    assert [path.name for path in sorted((lone_root.path / "queues/copies").iterdir())] == ids
    assert (bodies(lone_root), staged(lone_root)) == ([], [])
    assert lone_root.names("spark/txn") == [f"{query.id}/2"]


def test_a_batch_that_spark_replays_is_not_written_again(
    spark: Any, lone_root: Root, tmp_path: Path
) -> None:
    """The driver died after the sink's commit, before Spark noted it."""
    source = tmp_path / "source"
    source.mkdir()

    def run() -> None:
        frame = spark.readStream.format("text").load(str(source))
        sink = frame.writeStream.format("mq").option("root", str(lone_root.path))
        sink = sink.option("queue", "orders").trigger(availableNow=True)
        sink.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    for number in range(2):
        (source / f"{number}.txt").write_text(f"line {number}\n")
        run()
    for name in ("1", ".1.crc"):
        (tmp_path / "checkpoint/commits" / name).unlink()
    run()

    assert bodies(lone_root) == [b"line 0", b"line 1"]
    assert not (tmp_path / "checkpoint/commits/2").exists()
