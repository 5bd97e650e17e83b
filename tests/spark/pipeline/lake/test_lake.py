"""A lake has each row once, wherever its writer dies."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mq.errors import CommandFailed, ExitCode
from pyspark_mq.pipeline.lake import lake as lake_module
from pyspark_mq.pipeline.lake.folder import LakeFolder
from pyspark_mq.pipeline.lake.lake import Lake, LakeBusy
from pyspark_mq.pipeline.lake.placing import LakeDamaged, Placings
from pyspark_mq.pipeline.running.causes import JobRefused
from tests.spark.pipeline.lakes import files_in, numbers_in, rows_of
from tests.support.faults import raising
from tests.support.immutable import immutable
from tests.support.users import needs_root


class Died(BaseException):
    """In place of a SIGKILL."""


def test_a_batch_that_is_run_again_is_there_once(spark: Any, make_lake: Callable[[], Lake]) -> None:
    make_lake().add(rows_of(spark, 1, 2, 3), 0)
    make_lake().add(rows_of(spark, 1, 2, 3), 0)
    make_lake().add(rows_of(spark, 4), 1)

    assert numbers_in(spark, make_lake()) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("step", "nth"),
    [("sync", 1), ("sync", 2), ("write", 1), ("move", 1), ("move", 2), ("remove", 1)],
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
    with after.held():
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
            patch.setattr(Placings, "place", lambda placings, job: die_at(placings, job, step, die))
            with pytest.raises(Died):
                lake.compact()
        with make_lake().held():
            pass
    else:
        assert lake.compact() == 4

    assert numbers_in(spark, make_lake()) == [0, 1, 2, 3]
    assert len(files_in(tmp_path)) == 1
    assert make_lake().compact() == 0


PLACE = Placings.place


def die_at(placings: Placings, job: str, step: str, die: Callable[..., None]) -> None:
    setattr(placings._folder, step, die)
    PLACE(placings, job)


@needs_root
def test_a_file_that_cannot_be_removed_is_not_read_beside_what_replaces_it(
    spark: Any, make_lake: Callable[[], Lake], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lake_module, "MOST_SMALL_FILES", 2)
    lake = make_lake()
    for batch in range(4):
        lake.add(rows_of(spark, batch), batch)
    stuck = files_in(tmp_path)[1]

    with immutable(stuck):
        with pytest.raises(OSError, match=f"{stuck.name} was not removed"):
            lake.compact()
        once = numbers_in(spark, lake)
        assert len(once) == len(set(once))
        with pytest.raises(OSError, match=f"{stuck.name} was not removed"), make_lake().held():
            pass
    with make_lake().held():
        pass

    assert numbers_in(spark, make_lake()) == [0, 1, 2, 3]
    assert len(files_in(tmp_path)) == 1


def test_few_small_files_stay_as_they_are(
    spark: Any, make_lake: Callable[[], Lake], tmp_path: Path
) -> None:
    lake = make_lake()
    lake.add(rows_of(spark, 1), 0)
    before = files_in(tmp_path)

    assert lake.compact() == 0

    assert files_in(tmp_path) == before


@pytest.mark.parametrize("aside", ["_aside.parquet", ".aside.parquet", "_aside/file.parquet"])
def test_a_file_that_a_person_has_set_aside_stays_and_is_not_read(
    spark: Any,
    make_lake: Callable[[], Lake],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    aside: str,
) -> None:
    monkeypatch.setattr(lake_module, "MOST_SMALL_FILES", 1)
    lake = make_lake()
    for batch in range(3):
        lake.add(rows_of(spark, batch), batch)
    first = min(files_in(tmp_path))
    kept = first.parent / aside
    kept.parent.mkdir(exist_ok=True)
    first.rename(kept)

    assert lake.compact() == 2

    assert numbers_in(spark, make_lake()) == [1, 2]
    assert kept.exists()


@pytest.mark.usefixtures("no_patience")
def test_only_one_archive_at_a_time_fills_a_lake(make_lake: Callable[[], Lake]) -> None:
    with make_lake().held():
        second = make_lake().held()
        with pytest.raises(CommandFailed, match="another archive fills it now") as found:
            second.__enter__()
        # A replay leaves to the archive what is on its way.
        make_lake().finish()

    assert found.value.exit_code is ExitCode.TRY_AGAIN
    with make_lake().held():
        pass


@pytest.mark.usefixtures("no_patience")
def test_a_lake_behind_a_link_is_the_one_that_the_link_leads_to(
    spark: Any, make_lake: Callable[[], Lake], tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("lake")

    with Lake(spark, str(tmp_path / "link")).held():
        second = make_lake().held()
        with pytest.raises(CommandFailed, match="another archive fills it now"):
            second.__enter__()


@pytest.mark.parametrize("name", ["lake#2", "lake%32", "a lake"])
def test_a_lake_is_the_folder_that_is_named(spark: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake2").mkdir()
    others = [Lake(spark, str(tmp_path / other)) for other in ("lake", "lake2")]

    with others[0].held(), others[1].held(), Lake(spark, str(tmp_path / name)).held():
        assert (tmp_path / name / "_placing").is_dir()


def test_what_a_killed_try_still_writes_is_in_no_batch(
    spark: Any, make_lake: Callable[[], Lake], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake()
    frame = rows_of(spark, 1, 2)
    decide = lake.placings.decide

    def write_meanwhile(job: str, places: dict[str, str], replaced: list[str]) -> None:
        """The Spark of an archive that was killed ends its try of the same batch."""
        frame.write.partitionBy("queue", "day").parquet(lake.folder.full(f"_incoming/{job}.old"))
        decide(job, places, replaced)

    monkeypatch.setattr(lake.placings, "decide", write_meanwhile)
    lake.add(frame, 0)
    with make_lake().held():
        pass

    assert numbers_in(spark, lake) == [1, 2]
    assert lake.folder.names("_incoming") == []


def test_a_reader_waits_for_a_compaction_and_two_that_finish_a_batch_agree(
    spark: Any, make_lake: Callable[[], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_module, "MOST_SMALL_FILES", 2)
    monkeypatch.setattr(lake_module, "_COMPACTION_SECONDS", 0.0)
    lake = make_lake()
    for batch in range(4):
        lake.add(rows_of(spark, batch), batch)
    place, waited = lake.placings.place, []

    def place_beside_others(job: str) -> None:
        with pytest.raises(LakeBusy):
            make_lake().files()
        waited.append(job)
        make_lake().placings.place(job)
        place(job)

    monkeypatch.setattr(lake.placings, "place", place_beside_others)
    lake.compact()

    assert len(waited) == 1
    assert len(make_lake().files()) == 1
    assert numbers_in(spark, lake) == [0, 1, 2, 3]


def test_a_lake_at_rest_may_be_read_only_for_its_readers(
    spark: Any, make_lake: Callable[[], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_lake().add(rows_of(spark, 1, 2), 0)
    make_lake().add(rows_of(spark, 3), 1)

    for change in ("sync", "write", "move", "remove"):
        monkeypatch.setattr(LakeFolder, change, raising(errno.EROFS))
    make_lake().finish()

    assert numbers_in(spark, make_lake()) == [1, 2, 3]


def test_what_is_no_lake_is_refused_and_nothing_is_made(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/rows.csv").write_text("a")

    for name, text in (
        ("file", "is a file; name a folder"),
        ("other", r"has rows\.csv in it, which is not part of a lake"),
        ("l*ke", "for a pattern; choose a path without them"),
        ("missing", ""),
    ):
        if text:
            with pytest.raises(JobRefused, match=text):
                Lake(spark, str(tmp_path / name))
        else:
            assert Lake(spark, str(tmp_path / name)).files() == []
    nowhere = Lake(spark, "/proc/lake").held()
    with pytest.raises(CommandFailed, match="cannot be made or written") as found:
        nowhere.__enter__()

    assert found.value.exit_code is ExitCode.ROOT
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "other"]
    assert [each.name for each in (tmp_path / "other").iterdir()] == ["rows.csv"]


@pytest.mark.parametrize("text", ["", '{"places": {', "[]", '{"places": {}}'])
def test_a_damaged_list_of_what_goes_where_is_named(
    make_lake: Callable[[], Lake], tmp_path: Path, text: str
) -> None:
    placing = tmp_path / "lake/_placing"
    placing.mkdir()
    (placing / "compaction-1.json").write_text(text)

    with pytest.raises(LakeDamaged, match=r"compaction-1\.json is damaged"):
        make_lake().finish()
