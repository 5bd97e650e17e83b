"""A file of a lake that is damaged: the others go on, and it stays to be looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from pyspark_mq.pipeline import lake as lake_module
from pyspark_mq.pipeline.lake import Lake
from tests.spark.pipeline.lakes import files_in, numbers_in, rows_of


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
    damaged = min(files_in(tmp_path))
    damaged.write_bytes(damaged.read_bytes()[:kept_bytes])
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


def test_files_that_only_differ_are_not_taken_for_damaged(
    spark: Any, make_lake: Callable[[], Lake], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lake_module, "MOST_SMALL_FILES", 1)
    make_lake().add(rows_of(spark, 1), 0)
    make_lake().add(rows_of(spark, 2).withColumn("number", F.lit("two")), 1)
    said: list[str] = []

    with pytest.raises((PySparkException, Py4JJavaError), match="CANNOT_MERGE_SCHEMAS"):
        Lake(spark, str(tmp_path / "lake"), said.append).compact()

    assert (said, len(files_in(tmp_path))) == ([], 2)
