"""What a power cut leaves of the checkpoint in a lake: the archive goes on, and each message is in
the lake once."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import pytest
from pyarrow import parquet

from mq.errors import CommandFailed
from pyspark_mq.pipeline.jobs.archive import ArchiveJob, archive
from pyspark_mq.pipeline.lake.folder import LakeFolder
from pyspark_mq.pipeline.lake.placing import Placings
from pyspark_mq.pipeline.places import QueuePlace
from pyspark_mq.pipeline.running.progress import ProgressLine
from tests.support.lone_root import Root

Run = Callable[[], int]


@pytest.fixture
def run(spark: Any, lone_root: Root, tmp_path: Path) -> Run:
    """Archive what is ready, two messages in a batch."""
    job = ArchiveJob("orders", str(tmp_path / "lake"), "archive", True, 1.0, 2)
    place = QueuePlace(root=str(lone_root.path))
    return lambda: archive(spark, place, job, ProgressLine("archive", StringIO()), Event())


def lose(path: Path) -> None:
    for each in (path, path.with_name(f".{path.name}.crc")):
        each.unlink(missing_ok=True)


def tear(path: Path) -> None:
    """It was renamed, and its data had not been written out."""
    path.write_bytes(b"")


def fill_with_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size if path.exists() else 100))


def values(tmp_path: Path) -> list[bytes]:
    files = (tmp_path / "lake").glob("queue=*/day=*/*.parquet")
    return sorted(
        value
        for each in files
        for value in parquet.read_table(each, partitioning=None).column("value").to_pylist()
    )


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("commits/1", lose),
        ("commits/1", tear),
        ("commits/1", fill_with_zeros),
        ("offsets/2", tear),
        ("offsets/2", fill_with_zeros),
    ],
)
def test_a_file_that_was_not_synced_is_told_from_the_lake(
    lone_root: Root, tmp_path: Path, run: Run, name: str, damage: Callable[[Path], None]
) -> None:
    lone_root.put("orders", b"one", b"two", b"three")
    assert run() == 3
    # This lets the last batch go, if that did not.
    assert run() == 0

    damage(tmp_path / "lake/_checkpoint" / name)
    lone_root.put("orders", b"four", b"five")
    run()

    assert values(tmp_path) == [b"five", b"four", b"one", b"three", b"two"]
    assert lone_root.names("queues") == []


def test_a_query_whose_id_was_not_synced_begins_anew(
    lone_root: Root, tmp_path: Path, run: Run
) -> None:
    offsets = tmp_path / "lake/_checkpoint/offsets"
    offsets.mkdir(parents=True)
    tear(offsets.parent / "metadata")
    tear(offsets / "0")
    lone_root.put("orders", b"one")

    assert run() == 1
    assert values(tmp_path) == [b"one"]


def test_a_power_cut_in_the_first_batch_leaves_the_query_its_group(
    lone_root: Root, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root is on another file system: there all is durable."""
    lake, synced = tmp_path / "lake", tmp_path / "synced"
    sync = LakeFolder.sync

    def sync_and_copy(folder: LakeFolder) -> None:
        sync(folder)
        shutil.rmtree(synced, ignore_errors=True)
        shutil.copytree(lake, synced)

    def fail(*_: Any) -> NoReturn:
        raise OSError(errno.EIO, "the power fails")

    lone_root.put("orders", b"one")
    with monkeypatch.context() as patched:
        patched.setattr(LakeFolder, "sync", sync_and_copy)
        patched.setattr(Placings, "decide", fail)
        with pytest.raises(CommandFailed, match="the power fails"):
            run()
    shutil.rmtree(lake)
    if synced.exists():
        synced.rename(lake)

    assert run() == 1
    assert values(tmp_path) == [b"one"]
