"""A file of a lake that is damaged: the others go on, and it stays to be looked at."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from pyspark_mq.pipeline.lake import lake as lake_module
from pyspark_mq.pipeline.lake.columns import read_rows
from pyspark_mq.pipeline.lake.lake import Lake
from pyspark_mq.pipeline.running.causes import JobRefused
from tests.spark.pipeline.lakes import cut_one, files_in, numbers_in, rows_of


@pytest.mark.parametrize("kept_bytes", [7, -20])
def test_a_file_that_cannot_be_read_stays_and_the_others_are_merged(
    spark: Any,
    make_lake: Callable[[], Lake],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    kept_bytes: int,
) -> None:
    monkeypatch.setattr(lake_module, "MOST_SMALL_FILES", 1)
    said: list[str] = []
    for batch in range(4):
        make_lake().add(rows_of(spark, batch), batch)
    damaged = cut_one(tmp_path, kept_bytes)
    kept = damaged.read_bytes()

    lake = Lake(spark, str(tmp_path / "lake"), said.append)
    replaced = lake.compact()

    assert (replaced, len(files_in(tmp_path))) == (3, 2)
    assert damaged.read_bytes() == kept
    [line] = said
    assert f"{damaged.name} cannot be read and is not merged" in line
    assert lake.folder.names("_incoming") == []
    damaged.unlink()
    assert numbers_in(spark, lake) == [1, 2, 3]


def test_a_file_with_a_column_in_another_type_stays_and_the_others_are_merged(
    spark: Any, make_lake: Callable[[], Lake], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lake_module, "MOST_SMALL_FILES", 1)
    for batch in range(4):
        rows = rows_of(spark, batch)
        text = F.struct((F.lit("two") if batch == 1 else F.lit(batch)).alias("price"))
        make_lake().add(rows.withColumn("body", text), batch)
    odd = files_in(tmp_path)[1]
    kept = odd.read_bytes()
    said: list[str] = []

    lake = Lake(spark, str(tmp_path / "lake"), said.append)
    replaced = lake.compact()

    assert (replaced, len(files_in(tmp_path)), odd.read_bytes()) == (3, 2, kept)
    [line] = said
    assert f"{odd.name} is not merged: it has column body.price as string" in line
    assert "as int; write it again with that type, or rename it to _NAME" in line
    assert lake.folder.names("_incoming") == []
    assert lake.compact() == 0
    rows = spark.read.schema("number int").parquet(lake.folder.url).collect()
    assert sorted(row.number for row in rows) == [0, 1, 2, 3]


def test_an_expression_names_the_files_and_the_column_that_has_two_types(
    spark: Any, make_lake: Callable[[], Lake]
) -> None:
    columns = "id string, value binary, published_at timestamp, queue string, day string, "
    row = ("id", b"x", datetime(2026, 11, 22, tzinfo=UTC), "orders", "2026-11-22")
    for batch, (price, kind) in enumerate(((1, "int"), ("one", "string"))):
        frame = spark.createDataFrame([(*row, (price,))], f"{columns}body struct<price:{kind}>")
        make_lake().add(frame, batch)

    with pytest.raises(JobRefused) as refused:
        read_rows(spark, make_lake(), with_bodies=True)

    first, second = make_lake().files()
    assert f"{second} has column body.price as string, and {first} as int" in str(refused.value)
    bare = read_rows(spark, make_lake(), with_bodies=False)
    assert bare is not None
    assert bare.count() == 2
