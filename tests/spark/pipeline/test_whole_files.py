"""No file is left out: not by a Spark that passes damaged ones over, nor in folders of a folder."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyarrow import parquet
from pyspark.errors import PySparkException

from pyspark_mq.pipeline.jobs.load import LoadJob, load
from pyspark_mq.pipeline.lake import lake as lake_module
from pyspark_mq.pipeline.lake.columns import read_rows
from pyspark_mq.pipeline.lake.lake import Lake
from pyspark_mq.pipeline.places import QueuePlace
from pyspark_mq.pipeline.running.causes import JobRefused
from pyspark_mq.pipeline.running.progress import ProgressLine
from pyspark_mq.pipeline.session import SETTINGS
from tests.spark.pipeline.lakes import cut_one, files_in, rows_of
from tests.support.lone_root import Root

Load = Callable[..., int]

LENIENT = {
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
}


@pytest.fixture
def lenient(spark: Any) -> Iterator[Any]:
    """A session that passes over what it cannot read, as `spark-defaults.conf` may say."""
    for name, value in LENIENT.items():
        spark.conf.set(name, value)
    yield spark
    for name in LENIENT:
        spark.conf.unset(name)


@pytest.fixture
def load_from(spark: Any, lone_root: Root) -> Load:
    """`load_from(kind, *paths)` publishes to `orders`, with a session that is lenient."""
    spark = spark.newSession()
    for name, value in (SETTINGS | LENIENT).items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    place, line = QueuePlace(root=str(lone_root.path)), ProgressLine("job", StringIO())

    def load_them(kind: str, *paths: Path, body: str | None = None) -> int:
        return load(spark, place, LoadJob(tuple(map(str, paths)), kind, "orders", body), line)

    return load_them


def bodies(root: Root) -> list[bytes]:
    return sorted(path.read_bytes() for path in (root.path / "queues/orders").iterdir())


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("kept_bytes", [7, -20])
def test_a_lenient_spark_unlinks_no_damaged_file(
    lenient: Any,
    make_lake: Callable[[], Lake],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    kept_bytes: int,
) -> None:
    monkeypatch.setattr(lake_module, "MOST_SMALL_FILES", 1)
    for batch in range(4):
        make_lake().add(rows_of(lenient, batch), batch)
    damaged = cut_one(tmp_path, kept_bytes)

    assert make_lake().compact() == 3
    assert damaged.exists()


def test_a_lenient_spark_leaves_no_message_out_of_a_replay(
    lenient: Any, make_lake: Callable[[], Lake], tmp_path: Path
) -> None:
    frame = lenient.range(1).selectExpr(
        "'id' AS id", "X'01' AS value", "current_timestamp() AS published_at", "'orders' AS queue",
        "'2026-11-22' AS day",
    )  # fmt: skip
    for batch in range(2):
        make_lake().add(frame, batch)
    damaged = max(files_in(tmp_path))
    damaged.write_bytes(damaged.read_bytes()[:-20])

    rows = read_rows(lenient, make_lake(), with_bodies=False)

    assert rows is not None
    with pytest.raises((PySparkException, Py4JJavaError), match=damaged.name):
        rows.collect()


def test_a_lenient_spark_loads_no_half_of_the_files(
    load_from: Load, lone_root: Root, tmp_path: Path
) -> None:
    folder = put(tmp_path / "rows/whole.json", '{"n":1}\n').parent
    lines = gzip.compress(b'{"n":2}\n' * 1000)
    (folder / "torn.json.gz").write_bytes(lines[:-20])

    with pytest.raises(JobRefused, match="cannot be read as json"):
        load_from("json", folder)

    assert bodies(lone_root) == []


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_folders_in_a_folder_are_loaded_too(
    load_from: Load, lone_root: Root, tmp_path: Path, kind: str
) -> None:
    rows = tmp_path / "rows"
    for number, name in enumerate(("a", "2026/b", "2026/01/c", "2026/_draft/d")):
        path = rows / f"{name}.{kind}"
        if kind == "parquet":
            path.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(pa.table({"n": [number]}), path)
        else:
            put(path, f'{{"n":{number}}}\n' if kind == "json" else f"n\n{number}\n")

    load_from(kind, rows, rows / "2026")

    quote = b'"' if kind == "csv" else b""
    assert bodies(lone_root) == [b'{"n":%s%d%s}' % (quote, n, quote) for n in range(3)]


@pytest.mark.parametrize("other", ["top.csv", "elsewhere/than.csv"])
def test_a_file_outside_of_the_partitions_is_named_and_nothing_is_loaded(
    load_from: Load, lone_root: Root, tmp_path: Path, other: str
) -> None:
    put(tmp_path / "rows/item=tea/one.csv", "price\n2\n")
    put(tmp_path / "rows" / other, "price\n3\n")

    with pytest.raises(JobRefused, match=r"would be left out|Conflicting directory"):
        load_from("csv", tmp_path / "rows")

    assert bodies(lone_root) == []


def test_the_name_of_a_folder_is_no_body(load_from: Load, lone_root: Root, tmp_path: Path) -> None:
    put(tmp_path / "rows/value=tea/one.json", '{"value":"milk"}\n')

    load_from("json", tmp_path / "rows")

    assert bodies(lone_root) == [b'{"value":"milk"}']


def test_partitions_make_columns_of_csv(load_from: Load, lone_root: Root, tmp_path: Path) -> None:
    put(tmp_path / "rows/item=tea/one.csv", "price\n2\n")

    load_from("csv", tmp_path / "rows")

    assert bodies(lone_root) == [b'{"price":"2","item":"tea"}']
