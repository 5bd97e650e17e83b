"""A root as `mqctl` opens it: beside its servers, or with none, and without a trace."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.errors import ExitCode, StartRefused
from mq.lifecycle import FIXED_FOLDERS, Actor, Folder
from mq.spool.file_system import measure_file_system
from mq.spool.root import open_root, visit_root
from mq.spool.spool import Spool
from tests.support.faults import CHANGES, OldFiles, PlainFiles, WatchedFiles


def tree(root: Path) -> list[tuple[str, int]]:
    """Every name below the root, and when it was last changed."""
    return sorted((str(path), path.lstat().st_ctime_ns) for path in root.rglob("*"))


def test_a_visit_changes_nothing(spool: Spool, root: Path) -> None:
    before = tree(root)
    files = WatchedFiles()

    visit_root(root, files, Actor.SERVER).close()

    assert tree(root) == before
    assert sum(files.calls[name] for name in CHANGES) == 0


def test_a_visit_bears_a_missing_format_file_and_writes_none(spool: Spool, root: Path) -> None:
    (root / "format").unlink()

    visit_root(root, WatchedFiles(), Actor.SERVER).close()

    assert not (root / "format").exists()


@pytest.mark.parametrize("missing", FIXED_FOLDERS)
def test_a_folder_that_is_missing_is_named_and_not_made(
    spool: Spool, root: Path, missing: Folder
) -> None:
    shutil.rmtree(root / missing)

    with pytest.raises(StartRefused, match=f"there is no folder .*{missing};") as refused:
        visit_root(root, WatchedFiles(), Actor.SERVER)

    assert refused.value.exit_code == ExitCode.ROOT
    assert not (root / missing).exists()


def test_a_root_that_is_missing_is_not_made(root: Path) -> None:
    with pytest.raises(StartRefused, match="there is no folder"):
        visit_root(root, WatchedFiles(), Actor.SERVER)

    assert not root.exists()


def test_a_newer_format_is_refused(spool: Spool, root: Path) -> None:
    (root / "format").write_text("mq 3\n")

    with pytest.raises(StartRefused, match="'mq 3'") as refused:
        visit_root(root, WatchedFiles(), Actor.SERVER)

    assert refused.value.exit_code == ExitCode.FORMAT


@pytest.mark.parametrize("files", [WatchedFiles, OldFiles, PlainFiles])
def test_measuring_the_file_system_leaves_no_name(
    root: Path, files: Callable[[], WatchedFiles]
) -> None:
    made = open_root(root, 0o700, files())
    made[0].close()
    before = sorted(os.listdir(root / "remove"))
    spool = visit_root(root, files(), Actor.SERVER)

    measured = measure_file_system(spool)

    assert measured == made[1]
    assert spool.has_seals is measured.has_seals is (files is not PlainFiles)
    assert sorted(os.listdir(root / "remove")) == before
    assert os.listdir(root / "new") == os.listdir(root / "delay") == []
    spool.close()
