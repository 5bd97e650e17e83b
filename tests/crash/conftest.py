"""Crashes need a medium that can fail: a root on a disk, or on what stands for one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mq.spool.files import Files
from mq.spool.root import file_system_kind, open_root
from tests.conftest import Process


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A folder for a root; on a file system in memory nothing is ever synced."""
    kind = file_system_kind(tmp_path)
    if kind in ("tmpfs", "ramfs"):
        pytest.skip(f"{tmp_path} is on {kind}: give pytest a --basetemp on a disk")
    return tmp_path / "root"


@pytest.fixture
def start_mover(disk: Path, processes: list[Process]) -> Callable[..., Process]:
    """`start_mover("--delay=1")` starts `mq-mover` on a root, which is made; it ends with the
    test."""
    open_root(disk, 0o700, Files())[0].close()

    def start(*flags: str) -> Process:
        folders = (f"--source={disk / 'delay'}", f"--destination={disk / 'queues'}")
        log = disk.with_name(f"mover-{len(processes)}.log")
        processes.append(Process("mq_mover", *folders, *flags, log=log))
        return processes[-1]

    return start
