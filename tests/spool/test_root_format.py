"""The file `format`: raised once, in its place, before the first long seal."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.errors import ExitCode, PropertiesUnsupported, StartRefused, StoreUnavailable
from mq.lifecycle import Actor
from mq.spool.root import open_root, visit_root
from mq.spool.root_format import raise_format, read_format
from mq.spool.spool import Spool
from tests.support.faults import PlainFiles, WatchedFiles

NEW, RAISED = "mq 1", "mq 2"


def test_a_new_root_is_one_that_every_version_reads(spool: Spool) -> None:
    assert read_format(spool.root) == NEW
    assert not spool.has_long_seals


def test_a_raised_root_says_so_from_then_on(spool: Spool) -> None:
    inode = (spool.root / "format").stat().st_ino

    spool.use_long_seals()

    assert (spool.root / "format").read_text() == f"{RAISED}\n"
    # Its bytes are locks of others, who would not see those of another file.
    assert (spool.root / "format").stat().st_ino == inode
    assert spool.has_long_seals
    for opened in (open_root(spool.root, 0o700, Files())[0], visited(spool.root)):
        assert opened.has_long_seals
        opened.close()
    assert read_format(spool.root) == RAISED


def test_it_is_durable_before_anybody_relies_on_it(spool: Spool, files: WatchedFiles) -> None:
    files.calls.clear()
    files.fail("sync")

    with pytest.raises(OSError, match="Input/output"):
        spool.use_long_seals()

    assert not spool.has_long_seals
    written = files.calls["write"]
    spool.use_long_seals()
    assert files.calls["write"] == written + 1  # what a failed sync has lost is written again
    assert files.syncs() == 2

    spool.use_long_seals()
    assert files.syncs() == 2


def test_a_full_disk_leaves_the_format_as_it_was(spool: Spool, files: WatchedFiles) -> None:
    files.fail("write", code=errno.ENOSPC)

    with pytest.raises(OSError, match="No space"):
        spool.use_long_seals()

    assert read_format(spool.root) == NEW


def test_a_process_does_not_rely_on_what_another_one_may_not_have_synced(
    spool: Spool, files: WatchedFiles
) -> None:
    raise_format(spool.root, Files())
    files.calls.clear()

    spool.use_long_seals()

    assert files.syncs() == 1


def test_a_missing_file_is_written(spool: Spool) -> None:
    (spool.root / "format").unlink()

    spool.use_long_seals()

    assert read_format(spool.root) == RAISED


@pytest.mark.parametrize("name", ["queues/orders", "delay/orders:1", "remove/orders:1", "new/a:1"])
def test_a_root_that_has_lost_the_file_keeps_out_versions_that_would_misread_it(
    spool: Spool, name: str
) -> None:
    """This process has raised the format, and goes on writing long seals."""
    spool.use_long_seals()
    (spool.root / "format").unlink()
    for each in (spool.root / "remove").iterdir():
        each.unlink()
    (spool.root / name).touch()

    open_root(spool.root, 0o700, Files())[0].close()

    assert read_format(spool.root) == RAISED


def test_a_link_in_its_place_is_not_written_through(spool: Spool, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mq 1\n")
    (spool.root / "format").unlink()
    (spool.root / "format").symlink_to(other)

    with pytest.raises(OSError, match="symbolic links"):
        spool.use_long_seals()

    assert other.read_text() == "mq 1\n"


def test_a_file_system_without_attributes_refuses(root: Path) -> None:
    opened, _ = open_root(root, 0o700, PlainFiles())

    with pytest.raises(PropertiesUnsupported, match="no extended attributes"):
        opened.use_long_seals()

    opened.close()
    assert read_format(root) == NEW


def test_a_later_format_is_refused_with_what_it_says(root: Path) -> None:
    open_root(root, 0o700, Files())[0].close()
    (root / "format").write_text("mq 3\n")

    with pytest.raises(StartRefused, match=r"'mq 3'.*'mq 1' and 'mq 2'") as refusal:
        open_root(root, 0o700, Files())

    assert refusal.value.exit_code is ExitCode.FORMAT


def visited(root: Path) -> Spool:
    return visit_root(root, Files(), Actor.SPARK)


def test_a_format_that_another_version_has_written_stays(spool: Spool) -> None:
    (spool.root / "format").write_text("mq 3\n")

    with pytest.raises(StoreUnavailable, match="use the version of MQ that wrote it"):
        spool.use_long_seals()

    assert (spool.root / "format").read_text() == "mq 3\n"
