"""The floor of free space and free inodes, below which publish is refused, so that receive and
remove, which need a little room, go on."""

from __future__ import annotations

import os
from pathlib import Path

from mq.config import MIN_FREE_BYTES, MIN_FREE_FRACTION, MIN_FREE_INODES


def default_floor_bytes(root: Path) -> int:
    """16 MiB, or a hundredth of a smaller file system. `root` need not exist yet."""
    try:
        while not root.exists():
            root = root.parent
        status = os.statvfs(root)
    except OSError:
        # Whoever opens the root says what is wrong with it.
        return MIN_FREE_BYTES
    return min(MIN_FREE_BYTES, int(status.f_blocks * status.f_frsize * MIN_FREE_FRACTION))


def find_shortage(folder_fd: int, floor_bytes: int) -> str | None:
    """What there is too little of, in words; None if there is enough. A floor of 0 is none.

    The floor of inodes is 1,000, or a hundredth of those of a smaller file system.
    """
    if floor_bytes == 0:
        return None
    status = os.statvfs(folder_fd)
    free = status.f_bavail * status.f_frsize
    if free < floor_bytes:
        return (
            f"{free} bytes are free, the floor is {floor_bytes} (--min-free); receive and remove "
            "go on; free some space"
        )
    inode_floor = min(MIN_FREE_INODES, int(status.f_files * MIN_FREE_FRACTION))
    if status.f_favail < inode_floor:
        return (
            f"{status.f_favail} inodes are free, the floor is {inode_floor}; receive and remove "
            "go on; remove some files"
        )
    return None
