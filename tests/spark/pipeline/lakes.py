"""Small lakes, whose rows are numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark_mq.pipeline.lake.lake import Lake


def rows_of(spark: Any, *numbers: int) -> Any:
    rows = [("orders", "2026-11-22", f"id-{number}", number) for number in numbers]
    return spark.createDataFrame(rows, "queue string, day string, id string, number int")


def numbers_in(spark: Any, lake: Lake) -> list[int]:
    return sorted(row.number for row in spark.read.parquet(lake.folder.url).collect())


def files_in(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "lake").glob("queue=*/day=*/*.parquet"))


def cut_one(tmp_path: Path, kept_bytes: int) -> Path:
    """Cut the end of the first file of a lake: all but `kept_bytes`, or that many if negative."""
    damaged = min(files_in(tmp_path))
    damaged.write_bytes(damaged.read_bytes()[:kept_bytes])
    return damaged
