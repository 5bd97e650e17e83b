"""The folder of removed messages."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def removed(tmp_path: Path) -> Path:
    (tmp_path / "format").write_text("mq 1\n")
    folder = tmp_path / "remove"
    folder.mkdir()
    return folder
