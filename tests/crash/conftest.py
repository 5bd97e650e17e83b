"""Crashes need a medium that can fail: a root on a disk, or on what stands for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from mq.spool.root import file_system_kind


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A folder for a root; on a file system in memory nothing is ever synced."""
    kind = file_system_kind(tmp_path)
    if kind in ("tmpfs", "ramfs"):
        pytest.skip(f"{tmp_path} is on {kind}: give pytest a --basetemp on a disk")
    return tmp_path / "root"
