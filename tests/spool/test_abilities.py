"""What a file system can do is tried out, and the trial leaves nothing behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.errors import ExitCode, StartRefused
from mq.spool import abilities
from mq.spool.abilities import Ability, try_abilities
from mq.spool.root import open_root
from tests.support.faults import OldFiles, PlainFiles, WindowsFiles, raising


def _found(root: Path) -> dict[str, Ability]:
    return {each.name: each for each in try_abilities(root)}


class NoLocks(Files):
    def lock(self, fd: int) -> bool:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


class LonelyLocks(Files):
    """A lock keeps nobody out."""

    def lock_byte(self, fd: int, offset: int) -> bool:
        return True


def test_all_that_is_needed_is_found_here_and_nothing_is_left(tmp_path: Path) -> None:
    found = _found(tmp_path / "not" / "made")

    assert [each for each in found.values() if each.is_needed and not each.is_there] == []
    assert found["rename without replacing"].is_there
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("make", "missing"),
    [
        (OldFiles, {"rename without replacing", "unnamed files"}),
        (PlainFiles, {"extended attributes"}),
        (WindowsFiles, {"names with a colon"}),
        (NoLocks, {"lock of a file", "lock of a folder"}),
        (LonelyLocks, {"lock of a byte"}),
    ],
)
def test_what_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: type[Files], missing: set[str]
) -> None:
    before = {name for name, each in _found(tmp_path).items() if each.is_there}

    monkeypatch.setattr(abilities, "Files", make)
    after = {name for name, each in _found(tmp_path).items() if each.is_there}

    assert before - after == missing
    assert os.listdir(tmp_path) == []


def test_no_server_starts_where_names_have_no_colon(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match="no name may have a colon") as refused:
        open_root(tmp_path / "root", 0o700, WindowsFiles())

    assert refused.value.exit_code is ExitCode.SYSTEM


@pytest.mark.parametrize("path", ["file", "file/root"])
def test_root_that_cannot_be_a_folder_is_named(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(NotADirectoryError, match=path):
        try_abilities(tmp_path / path)


def test_on_a_network_file_system_the_ways_round_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abilities, "file_system_kind", lambda path: "fuse.other")
    found = _found(tmp_path)

    assert found["lock of a folder"].is_there
    assert not found["sync of everything"].is_there
    assert not found["events of other machines"].is_there


def test_where_the_limits_of_events_are_reached_the_rest_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abilities, "Watch", raising(errno.EMFILE))

    events = _found(tmp_path)["events of this machine"]

    assert not events.is_there
    assert events.found == "folders are listed instead (Too many open files)"
    assert os.listdir(tmp_path) == []


def test_a_trial_that_the_disk_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount of rclone answers EIO for what it does not have."""
    monkeypatch.setattr(Files, "set_attribute", raising(errno.EIO))

    with pytest.raises(OSError, match="extended attributes"):
        try_abilities(tmp_path)
    assert os.listdir(tmp_path) == []
