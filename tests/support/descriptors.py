"""What this process has open."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def open_descriptors() -> int:
    """Return how many descriptors are open. What other tests have left to the garbage collector,
    which might close it between two counts, is collected first."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def open_files() -> list[str]:
    """Return the number of each descriptor and the path that it leads to."""
    return sorted(f"{number} {path}" for number, path in _open_paths())


def open_paths() -> list[str]:
    """Return the path that each descriptor leads to."""
    return [path for _, path in _open_paths()]


def count_open(folder: Path) -> int:
    """Return how many files are open in a folder. Other tests leave theirs to the garbage
    collector, which may close them meanwhile."""
    return sum(str(folder) in each for each in open_files())


def _open_paths() -> Iterator[tuple[str, str]]:
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing
            yield number, os.readlink(f"/proc/self/fd/{number}")
