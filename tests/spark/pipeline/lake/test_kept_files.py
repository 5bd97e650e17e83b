"""A lake that is read while it is compacted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pyspark_mq.pipeline.lake import lake as lake_module
from pyspark_mq.pipeline.lake.lake import Lake
from pyspark_mq.pipeline.lake.merging import read_merged
from tests.spark.pipeline.lakes import files_in, numbers_in, rows_of


@pytest.mark.parametrize("begins", ["before", "meanwhile"])
def test_what_a_replay_reads_is_merged_later(
    spark: Any,
    make_lake: Callable[[], Lake],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    begins: str,
) -> None:
    monkeypatch.setattr(lake_module, "MOST_SMALL_FILES", 2)
    lake, reading = make_lake(), ExitStack()
    for batch in range(3):
        lake.add(rows_of(spark, batch), batch)
    before = files_in(tmp_path)

    def begin_to_read(*given: Any) -> Any:
        if begins == "meanwhile":
            reading.enter_context(make_lake().kept())
        return read_merged(*given)

    with reading, monkeypatch.context() as patch:
        patch.setattr(lake_module, "read_merged", begin_to_read)
        if begins == "before":
            reading.enter_context(make_lake().kept())
        assert lake.compact() == 0
        assert files_in(tmp_path) == before
        assert lake.folder.names("_incoming") == []

    assert lake.compact() == 3
    assert numbers_in(spark, make_lake()) == [0, 1, 2]
