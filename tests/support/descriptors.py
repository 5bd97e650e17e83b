"""What this process has open."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from pathlib import Path


def open_descriptors() -> int:
    """Return how many descriptors are open. What other tests have left to the garbage collector,
    which might close it between two counts, is collected first."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def open_files() -> list[str]:
    """Return the number of each descriptor and the path that it leads to."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing
            found.append(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
    return sorted(found)


def count_open(folder: Path) -> int:
    """Return how many files are open in a folder. Other tests leave theirs to the garbage
    collector, which may close them meanwhile."""
    return sum(str(folder) in each for each in open_files())
