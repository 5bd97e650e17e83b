"""A batch read shows messages of every state and takes none."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime
from typing import Any

import pytest

from mq.config import MAX_SPARK_MESSAGE_BYTES
from mq.disk.files import Files
from mq.errors import QueueNotFound
from pyspark_mq.options.options import BATCH_READ, parse_options
from pyspark_mq.reading.balance import balance
from pyspark_mq.reading.batch_read import BatchReader, SeenMessages
from pyspark_mq.reading.read_columns import DamagedMessage
from tests.support.faults import WatchedFiles
from tests.support.lone_root import Root


def options_of(root: Root, **given: str) -> Any:
    return parse_options({"root": str(root.path), "queue": "orders"} | given, BATCH_READ)


def rows_of(root: Root, **given: str) -> list[dict[str, Any]]:
    """What the tasks of one read return, without Spark."""
    reader = BatchReader(options_of(root, **given))
    return [
        row
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def test_spark_finds_the_source_by_its_name_and_reads_all_columns(
    spark: Any, lone_root: Root
) -> None:
    [first] = lone_root.put("orders", b"\x00one", published_ns=1_700_000_000_123_456_789)
    [second] = lone_root.put("orders", b"", count=3)

    read = spark.read.format("mq").option("root", str(lone_root.path)).option("queue", "orders")
    found = {row["id"]: row.asDict() for row in read.load().collect()}

    assert found.keys() == {first, second}
    assert found[first] == {
        "queue": "orders", "id": first, "value": b"\x00one",
        "content_type": "application/octet-stream", "receive_count": 0, "state": "ready",
        "published_at": datetime(2023, 11, 14, 22, 13, 20, 123456), "length": 4, "properties": {},
    }  # fmt: skip
    assert (found[second]["value"], found[second]["receive_count"]) == (b"", 3)


def test_a_read_without_bodies_reads_no_file(
    lone_root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    lone_root.put("orders", b"one", count=3)
    lone_root.put("orders", b"a longer one", folder="delay", lease=7)
    whole = rows_of(lone_root, states="ready,leased")

    def read(*_: object) -> bytes:
        raise AssertionError("a body was read")

    monkeypatch.setattr(Files, "read", read)
    bare = rows_of(lone_root, states="ready,leased", bodies="false")

    assert bare == [row | {"value": None} for row in whole]


def test_messages_can_be_queried_with_sql(spark: Any, lone_root: Root) -> None:
    lone_root.put("orders", b"a", b"bb", b"ccc")
    lone_root.put("returns", b"dddd")

    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW mq USING mq OPTIONS (root '{lone_root.path}')")
    counted = spark.sql("SELECT queue, count(*), sum(length) FROM mq GROUP BY queue ORDER BY queue")

    assert [tuple(row) for row in counted.collect()] == [("orders", 3, 6), ("returns", 1, 4)]


def test_an_error_of_an_option_reaches_the_user(spark: Any, lone_root: Root) -> None:
    with pytest.raises(Exception, match="option quue: unknown"):
        spark.read.format("mq").option("root", str(lone_root.path)).option("quue", "orders").load()


def test_a_schema_of_the_users_own_is_refused(spark: Any, lone_root: Root) -> None:
    with pytest.raises(Exception, match=r"leave out schema\(\.\.\.\)"):
        spark.read.format("mq").option("root", str(lone_root.path)).schema("a int").load().count()


def test_a_read_moves_nothing(lone_root: Root) -> None:
    lone_root.put("orders", b"one")
    lone_root.put("orders", b"two", folder="delay", lease=7)
    before = {folder: lone_root.names(folder) for folder in ("queues", "delay", "remove")}

    assert len(rows_of(lone_root, states="ready,leased")) == 2

    assert {folder: lone_root.names(folder) for folder in before} == before
    assert not (lone_root.path / "spark").exists()


@pytest.mark.parametrize(
    ("states", "bodies"),
    [
        ("ready", {b"ready"}),
        ("leased", {b"leased"}),
        ("delayed", {b"delayed"}),
        ("removed", {b"removed"}),
        ("dead", {b"dead"}),
        ("leased,delayed", {b"leased", b"delayed"}),
        ("ready,leased,delayed,removed,dead", {b"ready", b"leased", b"delayed", b"removed",
                                               b"dead"}),
    ],
)  # fmt: skip
def test_states_choose_what_is_read(lone_root: Root, states: str, bodies: set[bytes]) -> None:
    lone_root.put("orders", b"ready")
    lone_root.put("orders", b"leased", folder="delay", lease=7)
    lone_root.put("orders", b"delayed", folder="delay")
    lone_root.put("orders", b"removed", folder="remove", lease=7)
    lone_root.put("orders.dead", b"dead")
    lone_root.put("returns", b"another queue")

    rows = rows_of(lone_root, states=states)

    assert {row["value"] for row in rows} == bodies
    assert all(row["state"].encode() == row["value"] for row in rows)


def test_dead_letters_are_read_though_their_queue_is_gone(lone_root: Root) -> None:
    lone_root.put("gone.dead", b"dead")
    lone_root.put("orders.dead", b"another queue's")

    both = {"gone.dead", "orders.dead"}
    for queue, found in (("gone*", {"gone.dead"}), ("*", both), ("*.dead", both)):
        rows = rows_of(lone_root, queue=queue, states="dead")
        assert {row["queue"] for row in rows} == found
    assert rows_of(lone_root, queue="*", states="ready") == []


def test_a_queue_of_dead_letters_that_is_named_is_read_like_another(lone_root: Root) -> None:
    lone_root.put("orders", b"ready")
    lone_root.put("orders.dead", b"dead")

    for queue in ("orders.dead", "*.dead"):
        [row] = rows_of(lone_root, queue=queue)
        assert (row["queue"], row["value"], row["state"]) == ("orders.dead", b"dead", "dead")


def test_a_damaged_message_has_no_value_and_costs_no_other(lone_root: Root) -> None:
    damaged, whole = lone_root.put("orders", b"one", b"two")
    (lone_root.path / "queues/orders" / damaged).write_bytes(b"0ne")

    found = {row["id"]: row["value"] for row in rows_of(lone_root, mode="permissive")}

    assert found == {damaged: None, whole: b"two"}


def test_a_damaged_message_fails_the_read_in_failfast(lone_root: Root) -> None:
    [damaged] = lone_root.put("orders", b"one")
    (lone_root.path / "queues/orders" / damaged).write_bytes(b"one, and more")

    with pytest.raises(DamagedMessage, match=f"queues/orders/{damaged} fails its seal"):
        rows_of(lone_root, mode="failfast")


def test_a_message_that_spark_cannot_hold_has_no_value(lone_root: Root) -> None:
    path = lone_root.path / "queues/orders/long"
    lone_root.put("orders", b"short")
    path.touch()
    os.truncate(path, MAX_SPARK_MESSAGE_BYTES + 1)

    rows = rows_of(lone_root, mode="permissive")

    assert {row["length"]: row["value"] for row in rows} == {
        5: b"short", MAX_SPARK_MESSAGE_BYTES + 1: None,
    }  # fmt: skip
    with pytest.raises(DamagedMessage, match="queues/orders/long is longer than Spark can hold"):
        rows_of(lone_root, mode="failfast")


def test_a_queue_that_does_not_exist_is_named(lone_root: Root) -> None:
    with pytest.raises(QueueNotFound, match="there is no queue refunds"):
        rows_of(lone_root, queue="orders,refunds")


def test_an_empty_queue_has_no_rows(spark: Any, lone_root: Root) -> None:
    read = spark.read.format("mq").option("root", str(lone_root.path)).option("queue", "orders")

    assert read.load().count() == 0


def test_partitions_have_about_the_same_bytes(lone_root: Root) -> None:
    lone_root.put("orders", *[bytes(100_000)] * 2, *[bytes(10_000)] * 20)

    partitions = BatchReader(options_of(lone_root, numPartitions="2")).partitions()

    sizes = [
        sum(seen.length for seen in partition.messages)
        for partition in partitions
        if isinstance(partition, SeenMessages)
    ]
    assert sorted(sizes) == [200_000, 200_000]


def test_names_that_are_no_messages_are_passed_over(lone_root: Root) -> None:
    [message_id] = lone_root.put("orders", b"one")
    (lone_root.path / "queues/orders/.probe").write_bytes(b"")
    (lone_root.path / "queues/orders/a person's note.txt").write_bytes(b"")
    (lone_root.path / "queues/orders/folder").mkdir()
    (lone_root.path / "queues/orders/link").symlink_to("/etc/passwd")

    assert [row["id"] for row in rows_of(lone_root)] == [message_id]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EUCLEAN])
def test_a_file_that_may_not_be_opened_costs_no_other_message(
    lone_root: Root, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    _, second = lone_root.put("orders", b"one", b"two")
    files = WatchedFiles()
    monkeypatch.setattr("pyspark_mq.job_root.files_for", lambda _: files)
    files.fail("open_to_look", code=code)

    assert [row["id"] for row in rows_of(lone_root, numPartitions="1")] == [second]


def test_a_message_that_cannot_be_read_has_no_value(
    lone_root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    lone_root.put("orders", b"one", b"two")
    files = WatchedFiles()
    monkeypatch.setattr("pyspark_mq.job_root.files_for", lambda _: files)
    files.fail("read", code=errno.EIO, times=2)

    rows = rows_of(lone_root, numPartitions="1")

    assert [(row["value"], row["length"]) for row in rows] == [(None, 3), (b"two", 3)]


@pytest.mark.parametrize("bodies", ["true", "false"])
def test_a_seal_with_a_length_that_no_file_has_costs_no_other_message(
    lone_root: Root, bodies: str
) -> None:
    damaged, _ = lone_root.put("orders", b"one", b"two")
    path = lone_root.path / "queues/orders" / damaged
    os.setxattr(path, "user.mq", b"\xff" * 8 + os.getxattr(path, "user.mq")[8:])

    rows = rows_of(lone_root, bodies=bodies)

    assert {row["id"]: row["length"] for row in rows}[damaged] == 3
    assert sum(row["length"] for row in rows) == 6
    assert {row["value"] for row in rows} == ({None, b"two"} if bodies == "true" else {None})


def test_a_message_without_a_seal_is_whole(lone_root: Root) -> None:
    (lone_root.path / "queues/orders/by-hand").write_bytes(b"by hand")

    [row] = rows_of(lone_root)

    assert (row["value"], row["receive_count"], row["length"]) == (b"by hand", 0, 7)
    assert datetime.now(UTC).year >= row["published_at"].year >= 2020


def test_shares_differ_by_at_most_the_largest_item() -> None:
    lengths = [7_000_000, 5_000_000, 4_000_000, 3_000_000, 1_000_000, 1, 1, 1]

    totals = [sum(share) for share in balance(lengths, 3, lambda length: length)]

    assert max(totals) - min(totals) <= 2_000_000
