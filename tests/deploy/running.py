"""Commands that the deployment tests run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def run(*command: str | Path, **more: object) -> str:
    """Run a command that must succeed; returns what it printed."""
    done = subprocess.run(
        [str(word) for word in command], check=False, capture_output=True, text=True, timeout=400,
        **more,  # type: ignore[call-overload]
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return str(done.stdout)


def require(*programs: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("containers need root")
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}")
