"""What a lake writes down of the columns of bodies stays, so it must be of use."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pyspark_mq.pipeline.jobs.archive import ArchiveJob, archive
from pyspark_mq.pipeline.lake.columns import keep_columns, parse_schema
from pyspark_mq.pipeline.lake.folder import LakeFolder
from pyspark_mq.pipeline.lake.placing import LakeDamaged
from pyspark_mq.pipeline.places import QueuePlace
from pyspark_mq.pipeline.running.causes import JobRefused
from pyspark_mq.pipeline.running.progress import ProgressLine
from tests.support.lone_root import Root

REFUSED = ["a interval", "a map<int,string>", "a char(3)", "a struct<x: int, X: int>", "a time(6)",
           "a geometry(4326)", "a struct<>", "_body_that_does_not_fit string"]  # fmt: skip


def test_columns_that_a_lake_cannot_have_are_refused_and_leave_it_as_it_was(
    spark: Any, lone_root: Root, tmp_path: Path
) -> None:
    lone_root.put("orders", b'{"a": 1}')
    place, line = QueuePlace(root=str(lone_root.path)), ProgressLine("job", StringIO())

    def run(columns: str) -> int:
        job = ArchiveJob("orders", str(tmp_path / "lake"), "archive", True, 1.0, 1000, columns)
        return archive(spark, place, job, line, Event())

    for schema in REFUSED:
        with pytest.raises(JobRefused, match=r"--schema.*(another type|write it as)"):
            run(schema)
        assert len(lone_root.names("queues")) == 1
    assert run("a int") == 1

    [row] = spark.read.parquet(str(tmp_path / "lake")).collect()
    assert (row.body.a, row.bad_body) == (1, None)


@pytest.mark.parametrize("has_checksum", [True, False])
@pytest.mark.parametrize("text", ["", '{"type": "struct", "fie', "[]", "{}", '{"fields": [1]}'])
def test_damaged_columns_are_named_with_the_way_out(
    spark: Any, tmp_path: Path, text: str, has_checksum: bool
) -> None:
    folder = LakeFolder(spark, str(tmp_path / "lake"))
    keep_columns(spark, folder, parse_schema(spark, "a int"))
    (tmp_path / "lake/_columns/000000.json").write_text(text)
    if not has_checksum:  # As on most services.
        (tmp_path / "lake/_columns/.000000.json.crc").unlink()

    with pytest.raises(LakeDamaged, match=r"_columns/000000\.json is damaged.*move it away"):
        keep_columns(spark, folder, parse_schema(spark, "a int, b int"))
    (tmp_path / "lake/_columns/000000.json").unlink()
    keep_columns(spark, folder, parse_schema(spark, "a int, b int"))
