"""What an image is built from: a base image, our wheels, and the files of a clone."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.deploy.running import run
from tests.support.sources import REPOSITORY

BASE_IMAGE = "python:3.13-slim"


def make_wheels(folder: Path, extras: str) -> Path:
    """Make wheels in the way that docs/deploy.md shows."""
    wheel = (sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", folder)
    run(*wheel, "--require-hashes", "-r", REPOSITORY / "requirements.lock")
    run(*wheel, "--no-deps", REPOSITORY)
    if extras:
        run(*wheel, f"{REPOSITORY}{extras}")
    return folder


def copy_tracked_files(target: Path) -> None:
    """What a clone would have, with changes that are not committed yet."""
    listed = run("git", "-c", "safe.directory=*", "-C", REPOSITORY, "ls-files", "-z")
    for name in filter(None, listed.split("\0")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, target / name)
