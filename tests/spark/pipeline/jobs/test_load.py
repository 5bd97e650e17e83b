"""A load of several files, or of a folder of them, has every row whole and in its queue."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from pyspark_mq.pipeline.jobs.load import LoadJob, load
from pyspark_mq.pipeline.places import QueuePlace
from pyspark_mq.pipeline.running.causes import JobRefused
from pyspark_mq.pipeline.running.progress import ProgressLine
from pyspark_mq.pipeline.session import SETTINGS
from tests.support.lone_root import Root

Load = Callable[..., int]


@pytest.fixture
def load_from(spark: Any, lone_root: Root) -> Load:
    """`load_from(kind, *paths)` publishes to `orders`."""
    spark = spark.newSession()
    for name, value in SETTINGS.items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    place, line = QueuePlace(root=str(lone_root.path)), ProgressLine("job", StringIO())

    def load_them(kind: str, *paths: Path, body: str | None = None) -> int:
        job = LoadJob(tuple(map(str, paths)), kind, "orders", body)
        return load(spark, place, job, line)

    return load_them


def bodies(root: Root, queue: str = "orders") -> list[bytes]:
    return sorted(path.read_bytes() for path in (root.path / "queues" / queue).iterdir())


def test_files_of_csv_with_other_headers_are_refused(
    load_from: Load, lone_root: Root, tmp_path: Path
) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("item,price\ntea,2\n")
    two.write_text("price,item\n3,milk\n")

    for body in (None, "item"):
        with pytest.raises(JobRefused, match="cannot be read as csv: their headers differ"):
            load_from("csv", one, two, body=body)

    assert bodies(lone_root) == []


def test_files_of_parquet_may_have_other_columns(
    load_from: Load, lone_root: Root, tmp_path: Path
) -> None:
    one, two = tmp_path / "one.parquet", tmp_path / "two.parquet"
    parquet.write_table(pa.table({"item": ["tea"]}), one)
    parquet.write_table(pa.table({"item": ["milk"], "price": [3]}), two)

    assert load_from("parquet", one, two) == 2

    assert [json.loads(each) for each in bodies(lone_root)] == [
        {"item": "milk", "price": 3}, {"item": "tea"},
    ]  # fmt: skip


def test_the_names_of_folders_choose_no_queue(
    load_from: Load, lone_root: Root, tmp_path: Path
) -> None:
    lone_root.make("returns")
    folder = tmp_path / "rows/queue=returns/day=2026-11-22"
    folder.mkdir(parents=True)
    (folder / "rows.jsonl").write_text('{"item":"tea"}\n')

    assert load_from("json", tmp_path / "rows") == 1

    assert (bodies(lone_root), bodies(lone_root, "returns")) == ([b'{"item":"tea"}'], [])


@pytest.mark.parametrize("name", ["a[1].x", "a*.x", "a?.x", "a{1}.x", r"a\1.x"])
def test_the_file_that_is_named_is_loaded_whatever_its_name(
    load_from: Load, lone_root: Root, tmp_path: Path, name: str
) -> None:
    for other in ("a1.x", "a11.x"):
        (tmp_path / other).write_text('{"item":"another"}\n')
    (tmp_path / name).write_text('{"item":"tea"}\n')

    assert load_from("json", tmp_path / name) == 1
    assert load_from("json", tmp_path / name, body="item") == 1

    assert bodies(lone_root) == [b"tea", b'{"item":"tea"}']


def test_a_pattern_that_is_no_file_stays_one(
    load_from: Load, lone_root: Root, tmp_path: Path
) -> None:
    for number in (1, 2):
        (tmp_path / f"a{number}.x").write_text(f"{number}\n")

    assert load_from("json", tmp_path / "a[12].x") == 2

    assert bodies(lone_root) == [b"1", b"2"]


@pytest.mark.parametrize("name", ["_hidden.x", ".hidden.x"])
def test_a_file_that_spark_would_leave_out_is_refused(
    load_from: Load, lone_root: Root, tmp_path: Path, name: str
) -> None:
    for each in ("rows.x", name):
        (tmp_path / each).write_text('{"item":"tea"}\n')

    with pytest.raises(JobRefused, match=f"{name}: Spark reads no file whose name begins"):
        load_from("json", tmp_path / "rows.x", tmp_path / name)

    assert bodies(lone_root) == []


def test_a_folder_whose_name_begins_with_an_underscore_is_loaded(
    load_from: Load, lone_root: Root, tmp_path: Path
) -> None:
    (tmp_path / "_rows").mkdir()
    for each in ("rows.x", "_SUCCESS", ".rows.x.crc"):
        (tmp_path / "_rows" / each).write_text('{"item":"tea"}\n')

    assert load_from("json", tmp_path / "_rows") == 1

    assert bodies(lone_root) == [b'{"item":"tea"}']


@pytest.mark.parametrize(("kind", "text"), [("csv", "value\ncafé\n"), ("json", '"café"\n')])
def test_a_text_that_is_not_in_utf_8_is_refused(
    load_from: Load, lone_root: Root, tmp_path: Path, kind: str, text: str
) -> None:
    for encoding in ("latin-1", "utf-16"):
        (tmp_path / "rows").write_text(text, encoding=encoding)
        with pytest.raises(JobRefused, match="rows has a line that is not UTF-8: b'"):
            load_from(kind, tmp_path / "rows")
    (tmp_path / "rows").write_text(text, encoding="utf-8-sig")
    assert load_from(kind, tmp_path / "rows", body=None) == 1

    assert bodies(lone_root)[0].strip(b'"') == "café".encode()


def test_an_object_may_have_a_name_twice(load_from: Load, lone_root: Root, tmp_path: Path) -> None:
    (tmp_path / "rows").write_text('{"a":1,"a":2}\n')

    assert load_from("json", tmp_path / "rows") == 1

    assert bodies(lone_root) == [b'{"a":1,"a":2}']


@pytest.mark.parametrize("text", ["1],[2", "{},[", '{"a":1}]', '{"a":1}},{"a":1', "1 2", "1,2"])
def test_a_text_with_something_behind_its_first_value_is_not_json(
    load_from: Load, lone_root: Root, tmp_path: Path, text: str
) -> None:
    (tmp_path / "rows.jsonl").write_text(f'{{"a":1}}\n{text}\n')

    with pytest.raises(JobRefused, match="has a line that is not JSON"):
        load_from("json", tmp_path / "rows.jsonl")

    assert bodies(lone_root) == []


def test_a_value_of_json_is_published_as_it_is_in_the_file(
    load_from: Load, lone_root: Root, tmp_path: Path
) -> None:
    values = {
        "12345678901234567890.123": b"12345678901234567890.123",
        "1e2": b"1e2",
        "1.10": b"1.10",
        '{"n":null,"x":[0.10,1E400]}': b'{"n":null,"x":[0.10,1E400]}',
        "true": b"true",
        r'"a\u00e9\n"': "aé\n".encode(),
    }
    lines = [f'{{"id":{number},"a.b":{value}}}' for number, value in enumerate(values, start=1)]
    (tmp_path / "rows").write_text("\n".join([*lines, '{"a.b":"x","id":"seven"}']))

    assert load_from("json", tmp_path / "rows", body="a.b") == 7

    found = {path.name: path.read_bytes() for path in (lone_root.path / "queues/orders").iterdir()}
    ids = [*map(str, range(1, 7)), "seven"]
    assert found == dict(zip(ids, [*values.values(), b"x"], strict=True))


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', '{"A":1,"a":2}'])
def test_the_last_of_a_name_that_an_object_has_twice_is_the_message(
    load_from: Load, lone_root: Root, tmp_path: Path, text: str
) -> None:
    (tmp_path / "rows").write_text(text)

    assert load_from("json", tmp_path / "rows", body="a") == 1

    assert bodies(lone_root) == [b"2"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[{"a":1},{"a":2}]', "has a line that is not an object: '\\[{"),
        ("5", "has a line that is not an object: '5'"),
        ('{"b":1}', "1 of 2 rows have null where their message should be"),
        ('{"a":null}', "1 of 2 rows have null where their message should be"),
    ],
)
def test_a_line_without_the_column_that_is_the_message_is_refused(
    load_from: Load, lone_root: Root, tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "rows").write_text(f'{{"a":1}}\n{text}\n')

    with pytest.raises(JobRefused, match=why):
        load_from("json", tmp_path / "rows", body="a")

    assert bodies(lone_root) == []


def test_times_keep_their_microseconds(load_from: Load, lone_root: Root, tmp_path: Path) -> None:
    time = datetime(2026, 11, 22, 8, 0, 0, 123456)
    table = pa.table({
        "at": pa.array([time], pa.timestamp("us", "UTC")),
        "local": pa.array([time], pa.timestamp("us")),
        "of": pa.array([{"at": time}], pa.struct([("at", pa.timestamp("us", "UTC"))])),
    })  # fmt: skip
    parquet.write_table(table, tmp_path / "times.parquet")

    load_from("parquet", tmp_path / "times.parquet")
    load_from("parquet", tmp_path / "times.parquet", body="of")

    there, at = "2026-11-22T08:00:00.123456", "2026-11-22T08:00:00.123456Z"
    whole, part = map(json.loads, sorted(bodies(lone_root), key=len, reverse=True))
    assert whole == {"at": at, "local": there, "of": {"at": at}}
    assert part == {"at": at}


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (pa.array([1], pa.timestamp("ns")), "Illegal Parquet type"),
        (pa.array([b"0" * 16], pa.uuid()), "Illegal Parquet type"),
        (pa.array([1], pa.time64("us")), "TIME"),
        (pa.array([1], pa.decimal256(70, 0)), "precision 70"),
    ],
)
def test_a_type_that_spark_does_not_read_is_refused_with_the_file(
    load_from: Load, tmp_path: Path, column: pa.Array, why: str
) -> None:
    parquet.write_table(pa.table({"a": column}), tmp_path / "odd.parquet")

    with pytest.raises(JobRefused, match=rf"odd\.parquet cannot be read as parquet: .*{why}"):
        load_from("parquet", tmp_path / "odd.parquet")
