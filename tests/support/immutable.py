"""Files and folders that even root may not change."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def immutable(path: Path) -> Iterator[None]:
    """Keep a file or folder as it is until the block ends, or skip the test where the file system
    does not do that."""
    try:
        if _chattr("+i", path):
            pytest.skip("this file system has no immutable files")
        yield
    finally:
        _chattr("-i", path)


def _chattr(flag: str, path: Path) -> int:
    return subprocess.run(["chattr", flag, path], check=False, capture_output=True).returncode
