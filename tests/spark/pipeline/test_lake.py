"""A lake has each row once, wherever its writer dies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspark_mq.pipeline import lake as lake_module
from pyspark_mq.pipeline.lake import Lake
from pyspark_mq.pipeline.lake_folder import LakeFolder


class Died(BaseException):
    """In place of a SIGKILL."""


@pytest.fixture
def make_lake(spark: Any, tmp_path: Path) -> Callable[[], Lake]:
    """`make_lake()` is what a new process has of the same lake."""
    checkpoint = tmp_path / "lake/_checkpoint"
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": "query-1"}))
    return lambda: Lake(spark, str(tmp_path / "lake"))


def rows_of(spark: Any, *numbers: int) -> Any:
    rows = [("orders", "2026-11-22", f"id-{number}", number) for number in numbers]
    return spark.createDataFrame(rows, "queue string, day string, id string, number int")


def numbers_in(spark: Any, lake: Lake) -> list[int]:
    return sorted(row.number for row in spark.read.parquet(lake.folder.url).collect())


def files_in(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "lake").glob("queue=*/day=*/*.parquet"))


def test_a_batch_that_is_run_again_is_there_once(spark: Any, make_lake: Callable[[], Lake]) -> None:
    make_lake().add(rows_of(spark, 1, 2, 3), 0)
    make_lake().add(rows_of(spark, 1, 2, 3), 0)
    make_lake().add(rows_of(spark, 4), 1)

    assert numbers_in(spark, make_lake()) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("step", "nth"),
    [("sync", 1), ("sync", 2), ("write", 1), ("move", 1), ("move", 2), ("remove", 1),
     ("remove", 2)],
)  # fmt: skip
def test_a_batch_whose_writer_died_is_there_once_when_it_is_run_again(
    spark: Any,
    make_lake: Callable[[], Lake],
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    nth: int,
) -> None:
    dying, calls = getattr(LakeFolder, step), []

    def die(*arguments: Any) -> Any:
        calls.append(step)
        if len(calls) == nth:
            raise Died
        return dying(*arguments)

    lake = make_lake()
    frame = rows_of(spark, *range(6)).repartition(2)
    with monkeypatch.context() as patch:
        patch.setattr(LakeFolder, step, die)
        with pytest.raises(Died):
            lake.add(frame, 0)

    after = make_lake()
    after.finish()
    after.add(frame, 0)

    assert numbers_in(spark, after) == list(range(6))
    assert after.folder.names("_incoming") == []


@pytest.mark.parametrize("step", [None, "remove", "move"])
def test_many_small_files_become_one_and_nothing_is_lost_when_that_dies(
    spark: Any,
    make_lake: Callable[[], Lake],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    step: str | None,
) -> None:
    monkeypatch.setattr(lake_module, "MOST_SMALL_FILES", 2)
    lake = make_lake()
    for batch in range(4):
        lake.add(rows_of(spark, batch), batch)
    assert len(files_in(tmp_path)) == 4

    if step is not None:

        def die(*_: object) -> None:
            raise Died

        with monkeypatch.context() as patch:
            # Once it is decided.
            patch.setattr(Lake, "_place", lambda lake, job: die_at(lake, job, step, die))
            with pytest.raises(Died):
                lake.compact()
        make_lake().finish()
    else:
        assert lake.compact() == 4

    assert numbers_in(spark, make_lake()) == [0, 1, 2, 3]
    assert len(files_in(tmp_path)) == 1
    assert make_lake().compact() == 0


PLACE = Lake._place


def die_at(lake: Lake, job: str, step: str, die: Callable[..., None]) -> None:
    setattr(lake.folder, step, die)
    PLACE(lake, job)


def test_few_small_files_stay_as_they_are(
    spark: Any, make_lake: Callable[[], Lake], tmp_path: Path
) -> None:
    lake = make_lake()
    lake.add(rows_of(spark, 1), 0)
    before = files_in(tmp_path)

    assert lake.compact() == 0

    assert files_in(tmp_path) == before
