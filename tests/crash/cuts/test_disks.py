"""What a file system that has shut down says to a sync."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.disk.files import Files
from tests.crash.cuts.disks import FLUSH_LOG, FLUSH_NOTHING, CutDisk

HOST_MEGABYTES = 600


@pytest.mark.parametrize("flush", [FLUSH_NOTHING, FLUSH_LOG])
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_no_sync_succeeds_across_a_shutdown(
    loop_mount: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    flush: int,
) -> None:
    disk = CutDisk(kind, loop_mount("xfs", HOST_MEGABYTES), tmp_path / "cut")
    opened: list[int] = []
    try:
        for folder in "source", "target":
            (disk.path / folder).mkdir()
        (disk.path / "source" / "message").touch()
        os.sync()
        opened += [os.open(disk.path / name, os.O_RDONLY) for name in ("source", "target")]
        source, target = opened
        opened.append(os.open("message", os.O_RDWR, dir_fd=source))

        Files().rename(source, "message", target, "message")
        os.utime(opened[-1])
        fsync = os.fsync

        def shut_down_and_sync(fd: int) -> None:
            disk.shut_down(flush)
            fsync(fd)

        monkeypatch.setattr(os, "fsync", shut_down_and_sync)
        with pytest.raises(OSError, match="Input/output error"):
            Files().sync(target)
        monkeypatch.undo()

        for fd in target, source, opened[-1]:
            with pytest.raises(OSError, match="Input/output error"):
                Files().sync(fd)
    finally:
        for fd in opened:
            os.close(fd)
        disk.discard()


@pytest.mark.parametrize("asked_for", ["file", "folder", "file system"])
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_sync_that_finds_nothing_left_to_wait_for_does_not_succeed(
    loop_mount: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    asked_for: str,
) -> None:
    disk = CutDisk(kind, loop_mount("xfs", HOST_MEGABYTES), tmp_path / "cut")
    (disk.path / "message").touch()
    fd = os.open(disk.path / "message" if asked_for == "file" else disk.path, os.O_RDONLY)
    files = Files()
    try:
        sync = files.sync_file_system if asked_for == "file system" else files.sync
        sync(fd)

        # What Linux does when another change than this one has ended the log a moment before.
        def shut_down_and_succeed(_: int) -> int:
            disk.shut_down(FLUSH_NOTHING)
            return 0

        monkeypatch.setattr(os, "fsync", shut_down_and_succeed)
        monkeypatch.setattr(files._libc, "syncfs", shut_down_and_succeed)
        with pytest.raises(OSError, match=r"Input/output error|Read-only file system"):
            sync(fd)
    finally:
        os.close(fd)
        disk.discard()
