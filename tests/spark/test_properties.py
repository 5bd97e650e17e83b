"""Properties through Spark's source and sink, on the folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mq.properties import MAX_STORED_PROPERTIES_BYTES
from tests.support.lone_root import Root
from tests.support.messages import read_seal, sealed_with, write_message

PROPERTIES = {"x-meta-shop": "north", "traceparent": "00-1-2-01"}
COLUMNS = "value string, properties map<string,string>"


def put(root: Root, name: str, body: bytes, properties: dict[str, str]) -> Path:
    root.make("orders")
    seal, data = sealed_with(body, properties)
    return write_message(root.path / "queues/orders" / name, data, seal=seal)


def read(spark: Any, root: Root, **options: str) -> dict[str, Any]:
    given = {"root": str(root.path), "queue": "orders"} | options
    rows = spark.read.format("mq").options(**given).load().collect()
    return {row.id: row for row in rows}


def write(frame: Any, root: Root) -> None:
    given = {"root": str(root.path), "queue": "orders"}
    frame.write.format("mq").options(**given).mode("append").save()


def test_a_read_has_them_as_a_map(spark: Any, lone_root: Root) -> None:
    put(lone_root, "with", b"body", PROPERTIES)
    put(lone_root, "large", b"x" * 100_000, PROPERTIES)
    put(lone_root, "without", b"body", {})
    torn = put(lone_root, "torn", b"body", PROPERTIES)
    torn.write_bytes(torn.read_bytes()[:-1] + b"x")

    found = read(spark, lone_root, mode="permissive")

    assert {name: row.properties for name, row in found.items()} == {
        "with": PROPERTIES, "large": PROPERTIES, "without": {}, "torn": {},
    }  # fmt: skip
    assert (bytes(found["with"].value), found["with"].length) == (b"body", 4)
    assert (bytes(found["large"].value), found["large"].length) == (b"x" * 100_000, 100_000)
    assert (found["torn"].value, found["torn"].length) == (None, 4)


def test_what_is_written_is_a_message_with_its_properties(spark: Any, lone_root: Root) -> None:
    lone_root.make("orders")
    # Those of SQS may be longer than HTTP allows.
    long = {"x-meta-sqs-attributes": "a" * 9000}
    rows = [("with", {"X-Meta-Shop": "north"}), ("empty", {}), ("null", None), ("long", long)]

    write(spark.createDataFrame(rows, COLUMNS), lone_root)

    found = {bytes(row.value).decode(): row.properties for row in read(spark, lone_root).values()}
    assert found == {"with": {"x-meta-shop": "north"}, "empty": {}, "null": {}, "long": long}
    assert (lone_root.path / "format").read_text() == "mq 2\n"
    lengths = {
        read_seal(path).trailer_length for path in (lone_root.path / "queues/orders").iterdir()
    }
    assert 0 in lengths
    assert len(lengths) == 3


def test_a_stream_takes_them_along(spark: Any, lone_root: Root, tmp_path: Path) -> None:
    put(lone_root, "one", b"body", PROPERTIES)
    given = {"root": str(lone_root.path), "queue": "orders", "group": "lake"}
    frame = spark.readStream.format("mq").options(**given).load()
    writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "lake"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()

    (row,) = spark.read.parquet(str(tmp_path / "lake")).collect()

    assert (row.properties, bytes(row.value)) == (PROPERTIES, b"body")


@pytest.mark.parametrize(
    ("columns", "row", "detail"),
    [
        ("value string, properties map<string,int>", ("a", {"ce-id": 1}), "a map of strings"),
        ("value string, properties string", ("a", "ce-id"), "a map of strings"),
        (COLUMNS, ("a", {"color": "red"}), "column properties: property 'color'"),
        (COLUMNS, ("a", {"ce-id": "caf\xe9"}), "column properties: property 'ce-id'"),
        (COLUMNS, ("a", {"ce-id": None}), "'ce-id' is null"),
        (
            COLUMNS,
            ("a", {"ce-id": "x" * (MAX_STORED_PROPERTIES_BYTES + 1)}),
            "column properties: .*at most",
        ),
    ],
)
def test_wrong_ones_are_refused_and_nothing_is_written(
    spark: Any, lone_root: Root, columns: str, row: tuple[object, ...], detail: str
) -> None:
    lone_root.make("orders")

    with pytest.raises(Exception, match=detail):
        write(spark.createDataFrame([row], columns), lone_root)

    assert lone_root.names("queues") == []
