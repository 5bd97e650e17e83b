"""A streaming read: exactly once, batch by batch; who else reads, and how much at a time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from mq.disk.files import Files
from mq.errors import ClaimError
from mq.lifecycle import Actor
from mq.spool.root import visit_root
from mq.spool.spark.claims import Group
from mq.spool.spark.group_owner import Owner
from pyspark_mq.options.options import STREAM_READ, parse_options
from pyspark_mq.reading.driver import Driver
from pyspark_mq.reading.stream_read import StreamReader
from tests.support.lone_root import Root
from tests.support.messages import seal_of, write_message


class ReadLake:
    """A query from the queue `orders` to Parquet, run as often as one likes."""

    def __init__(self, spark: Any, root: Root, folder: Path) -> None:
        self.spark = spark
        self.root = root
        self.folder = folder
        self.checkpoint = folder / "checkpoint"

    def run(self, **options: str) -> Any:
        """Run until nothing is left, and return the query. Raises what the query raises."""
        query = self.start(**options)
        query.awaitTermination()
        return query

    def start(self, **options: str) -> Any:
        given = {"root": str(self.root.path), "queue": "orders", "group": "lake"} | options
        writer = self.spark.readStream.format("mq").options(**given).load().writeStream
        writer = writer.format("parquet").option("path", str(self.folder / "lake"))
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(availableNow=True).start()

    def bodies(self) -> list[bytes]:
        rows = self.spark.read.parquet(str(self.folder / "lake")).select("value").collect()
        return sorted(bytes(row.value) for row in rows)


@pytest.fixture
def lake(spark: Any, lone_root: Root, tmp_path: Path) -> ReadLake:
    return ReadLake(spark, lone_root, tmp_path)


def numbered(count: int) -> list[bytes]:
    return [b"%03d" % number for number in range(count)]


def owns(lake: ReadLake, query: str) -> None:
    """A task of that query has read the group's first batch."""
    spool = visit_root(lake.root.path, Files(), Actor.SPARK)
    Group(spool, "lake", "task").take_for(Owner(query, 0), takes_over=False)
    spool.close()


def test_each_message_is_in_the_lake_once_over_several_runs(lake: ReadLake) -> None:
    lake.root.put("orders", *numbered(5))
    lake.run()
    lake.root.put("orders", b"later")
    lake.run()
    lake.run()

    assert lake.bodies() == [*numbered(5), b"later"]
    assert lake.root.names("queues") == []


def test_a_limit_makes_several_batches(lake: ReadLake) -> None:
    lake.root.put("orders", *numbered(5))

    query = lake.run(maxMessagesPerTrigger="2")

    assert [batch["numInputRows"] for batch in query.recentProgress] == [2, 2, 1]


def test_threads_of_a_batch_read_it_though_their_tasks_do_not_know_the_query(
    lake: ReadLake,
) -> None:
    def save_twice(frame: Any, batch: int) -> None:
        folders = [str(lake.folder / name / str(batch)) for name in ("lake", "copy")]
        with ThreadPoolExecutor(2) as threads:
            for saving in [threads.submit(frame.write.parquet, folder) for folder in folders]:
                saving.result()

    lake.root.put("orders", *numbered(5))
    given = {"root": str(lake.root.path), "queue": "orders", "group": "lake"}
    reader = lake.spark.readStream.format("mq").options(**given)
    reader = reader.option("maxMessagesPerTrigger", "3")
    writer = reader.load().writeStream.foreachBatch(save_twice).trigger(availableNow=True)
    writer.option("checkpointLocation", str(lake.checkpoint)).start().awaitTermination()

    for folder in ("lake", "copy"):
        rows = lake.spark.read.option("recursiveFileLookup", "true")
        found = rows.parquet(str(lake.folder / folder)).collect()
        assert sorted(bytes(row.value) for row in found) == numbered(5)
    shutil.rmtree(lake.checkpoint)
    with pytest.raises(Exception, match="group lake belongs to another query"):
        lake.run()


def test_progress_shows_how_many_messages_wait(lake: ReadLake) -> None:
    lake.root.put("orders", *numbered(5))

    query = lake.run(maxMessagesPerTrigger="3")

    reported = [json.loads(batch["sources"][0]["latestOffset"]) for batch in query.recentProgress]
    assert [offset["waiting"] for offset in reported] == [2, 0]


def test_a_deleted_checkpoint_is_an_error_until_it_takes_over(
    lake: ReadLake, tmp_path: Path
) -> None:
    lake.root.put("orders", b"one")
    lake.run()
    lake.root.put("orders", b"two")
    lake.checkpoint = tmp_path / "new checkpoint"

    with pytest.raises(Exception, match=r"belongs to query .* takeover=true.* a new folder"):
        lake.run()
    assert lake.bodies() == [b"one"]

    lake.folder = tmp_path / "new lake"
    lake.run(takeover="true")
    assert lake.bodies() == [b"two"]


def test_a_query_that_is_refused_leaves_the_one_that_owns_the_group_alone(
    lake: ReadLake, start_driver: Callable[..., Driver]
) -> None:
    lake.root.put("orders", b"one")
    owner = start_driver()
    assert owner.next_batch(0, None, None) == 1
    owns(lake, "its-owner")
    owner.finish(1)

    with pytest.raises(Exception, match="group lake belongs to query its-owner"):
        lake.run()

    lake.root.put("orders", b"two")
    assert owner.next_batch(1, None, None) == 2


@pytest.mark.parametrize("asked_first", ["latestOffset", "partitions"])
def test_a_checkpoint_that_is_refused_leaves_the_one_that_owns_the_group_alone(
    lone_root: Root, start_driver: Callable[..., Driver], asked_first: str
) -> None:
    lone_root.put("orders", b"one", b"two")
    owner = start_driver()
    assert owner.next_batch(0, 1, None) == 1
    owner.finish(1)
    given = {"root": str(lone_root.path), "queue": "orders", "group": "lake"}
    old = StreamReader(parse_options(given, STREAM_READ))
    # Spark asks first for the parts if the checkpoint was copied in the middle of a batch.
    up_to = {"latestOffset": old.getDefaultReadLimit(), "partitions": {"seq": 1}}[asked_first]

    with pytest.raises(ClaimError, match="the checkpoint is at batch 0, but batches up to 1 are"):
        getattr(old, asked_first)({"seq": 0}, up_to)

    assert owner.next_batch(1, 1, None) == 2


def test_a_batch_of_all_that_is_there_has_no_limits(lone_root: Root) -> None:
    """A trigger that runs once asks for it."""
    lone_root.put("orders", b"one", b"two")
    given = {"root": str(lone_root.path), "queue": "orders", "maxMessagesPerTrigger": "1"}
    reader = StreamReader(parse_options(given, STREAM_READ))

    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == {"seq": 1}

    assert lone_root.names("queues") == []
    reader.stop()


def test_available_now_reads_what_is_there_when_it_begins(lone_root: Root) -> None:
    lone_root.put("orders", b"one")
    given = {"root": str(lone_root.path), "queue": "orders"}
    reader = StreamReader(parse_options(given, STREAM_READ))
    reader.prepareForTriggerAvailableNow()
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    lone_root.put("orders", b"later")

    assert [reader.latestOffset({"seq": n}, limit)["seq"] for n in (start["seq"], 1)] == [1, 1]

    assert len(lone_root.names("queues")) == 1
    reader.stop()


def test_a_part_is_read_in_order_and_without_other_files(
    lone_root: Root, start_driver: Callable[..., Driver]
) -> None:
    given = {"root": str(lone_root.path), "queue": "orders", "group": "lake"}
    task, driver = StreamReader(parse_options(given, STREAM_READ)), start_driver(numPartitions="1")
    lone_root.put("orders", *numbered(20))
    driver.next_batch(0, None, None)
    [part] = driver.parts_between(0, 1)
    (lone_root.path / "spark" / part / "notes").touch()
    spool = visit_root(lone_root.path, Files(), Actor.SPARK)

    assert [row.value for row in task._rows(spool, part)] == numbered(20)

    spool.close()


def test_a_checkpoint_deleted_before_its_first_batch_was_done_is_an_error_too(
    lake: ReadLake, tmp_path: Path, start_driver: Callable[..., Driver]
) -> None:
    """Here the driver cannot tell, so a task does: only that knows the query."""
    lake.root.put("orders", b"one")
    assert start_driver().next_batch(0, None, None) == 1
    owns(lake, "another-query")

    with pytest.raises(Exception, match="group lake belongs to query another-query"):
        lake.run()

    lake.run(takeover="true")
    assert lake.bodies() == [b"one"]


def test_a_damaged_message_has_no_value_and_is_kept_aside(lake: ReadLake) -> None:
    damaged, _ = lake.root.put("orders", b"one", b"two")
    (lake.root.path / "queues/orders" / damaged).write_bytes(b"0ne")

    lake.run()

    rows = lake.spark.read.parquet(str(lake.folder / "lake")).collect()
    assert {row.id: row.value and bytes(row.value) for row in rows}[damaged] is None
    assert (lake.root.path / "corrupt" / f"orders:{damaged}").read_bytes() == b"0ne"


def test_a_damaged_message_is_kept_beside_an_earlier_one_of_its_id(
    lone_root: Root, start_driver: Callable[..., Driver]
) -> None:
    given = {"root": str(lone_root.path), "queue": "orders", "group": "lake"}
    task, driver = StreamReader(parse_options(given, STREAM_READ)), start_driver()
    spool = visit_root(lone_root.path, Files(), Actor.SPARK)

    for batch, damaged in enumerate((b"0ne", b"tw0")):
        seal = seal_of(damaged.replace(b"0", b"o"))
        write_message(lone_root.path / "queues/orders/order-1", damaged, seal=seal)
        assert driver.next_batch(batch, None, None) == batch + 1
        [part] = driver.parts_between(batch, batch + 1)
        for _ in range(2):
            assert [row.value for row in task._rows(spool, part)] == [None]
    spool.close()

    kept = (lone_root.path / "corrupt").iterdir()
    assert sorted(path.read_bytes() for path in kept) == [b"0ne", b"tw0"]


def test_a_damaged_message_fails_the_query_in_failfast(lake: ReadLake) -> None:
    [damaged] = lake.root.put("orders", b"one")
    (lake.root.path / "queues/orders" / damaged).write_bytes(b"0ne")

    with pytest.raises(Exception, match=rf"orders:{damaged} fails its seal.*mode=permissive"):
        lake.run(mode="failfast")

    lake.run(mode="permissive")
    assert (lake.root.path / "corrupt" / f"orders:{damaged}").exists()


def test_messages_can_be_archived_instead_of_removed(lake: ReadLake) -> None:
    lake.root.put("orders", b"one")

    lake.run(commit="archive")

    [kept] = (lake.root.path / "spark/archive/lake/1").glob("*/*")
    assert kept.read_bytes() == b"one"
    assert lake.root.names("remove") == []


def test_an_option_that_a_stream_has_not_is_named(lake: ReadLake) -> None:
    with pytest.raises(Exception, match="option states: not for this kind") as caught:
        lake.run(states="ready")

    # PySpark's own, about a reader that it has not got.
    assert "UnboundLocalError" not in str(caught.value)


def test_a_queue_that_does_not_exist_fails_the_query(lake: ReadLake) -> None:
    with pytest.raises(Exception, match="there is no queue refunds"):
        lake.run(queue="refunds")
