"""The crash model: syncing a folder keeps every change of names before it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.disk.files import Files
from tests.crash.cuts.disks import WAYS, CutDisk


@pytest.mark.parametrize("kind", sorted(WAYS))
def test_sync_of_a_folder_keeps_every_earlier_rename(
    loop_mount: Callable[..., Path], tmp_path: Path, kind: str
) -> None:
    files = Files()
    disk = CutDisk(kind, loop_mount("xfs", 400), tmp_path / "cut")
    try:
        here, there, elsewhere = (_make(disk.path / name) for name in ("a", "b", "c"))
        (disk.path / "a" / "message").touch()
        files.sync_file_system(here)

        files.rename(here, "message", there, "message")
        (disk.path / "c" / "later").touch()
        files.sync(elsewhere)

        disk.copy()
        for fd in (here, there, elsewhere):
            files.close(fd)
        disk.unmount()
        disk.mount()
        found = [os.listdir(disk.path / name) for name in ("a", "b", "c")]
        assert found == [[], ["message"], ["later"]]
    finally:
        disk.discard()


def _make(folder: Path) -> int:
    folder.mkdir()
    return os.open(folder, os.O_RDONLY)
