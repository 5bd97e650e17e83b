"""The floor of free space and free inodes. Below it publish is refused, so that receive and remove,
which need a little room, go on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from mq.config import MIB
from mq.errors import StoreUnavailable
from mq.spool.file_system import nearest_folder

MIN_FREE_BYTES = 16 * MIB
MIN_FREE_FRACTION = 0.01
MIN_FREE_INODES = 1000
"""The floors of free space and free inodes, or a hundredth of a smaller file system."""


def default_floor_bytes(root: Path) -> int:
    """Return 16 MiB, or a hundredth of a smaller file system. `root` need not exist yet."""
    try:
        status = os.statvfs(nearest_folder(root))
    except OSError:
        # The code that opens the root says what is wrong with it.
        return MIN_FREE_BYTES
    return min(MIN_FREE_BYTES, int(status.f_blocks * status.f_frsize * MIN_FREE_FRACTION))


class Floor:
    """The floor, and how much several threads are writing: nothing is begun that would go below the
    floor. A floor of 0 means none.

    The floor of inodes is 1,000, or a hundredth of those of a smaller file system.
    """

    def __init__(self, floor_bytes: int, folder_fd: Callable[[], int]) -> None:
        """Set the floor. `folder_fd` returns the descriptor of a folder on the file system, which
        may be another one each time."""
        self._floor_bytes = floor_bytes
        self._folder_fd = folder_fd
        self._lock = Lock()
        self._writing_bytes = 0
        self.why_none: str | None = None
        """Why nothing may be written whatever is free: the root is not at its path any more, and
        what is published would be out of sight once the server ends."""

    def room_bytes(self, own_bytes: int = 0) -> int:
        """Return how many bytes may be written now; `own_bytes` of what is being written are the
        caller's. Raises StoreUnavailable if none may be, and OSError."""
        if self.why_none is not None:
            raise StoreUnavailable(self.why_none)
        if self._floor_bytes == 0:
            return sys.maxsize
        # What others end meanwhile is counted twice rather than not at all.
        reserved = self._writing_bytes - own_bytes
        status = os.statvfs(self._folder_fd())
        free = status.f_bavail * status.f_frsize
        room = free - self._floor_bytes - reserved
        if room < 0:
            raise _too_full(
                f"{free} bytes are free, the floor is {self._floor_bytes} (--min-free); receive "
                "and remove go on; free some space"
            )
        inode_floor = min(MIN_FREE_INODES, int(status.f_files * MIN_FREE_FRACTION))
        if status.f_favail < inode_floor:
            raise _too_full(
                f"{status.f_favail} inodes are free, the floor is {inode_floor}; receive and "
                "remove go on; remove some files"
            )
        return room

    def require(self, length: int, own_bytes: int = 0) -> None:
        """Raise StoreUnavailable if this many bytes more would go below the floor, and OSError."""
        if length > self.room_bytes(own_bytes):
            raise self.shortage_of(length)

    def find_shortage(self) -> str | None:
        """Return what the disk has too little of, in words, or None. Raises OSError."""
        try:
            self.require(0)
        except StoreUnavailable as error:
            return str(error)
        return None

    def shortage_of(self, length: int) -> StoreUnavailable:
        return _too_full(
            f"{length} bytes more would go below the floor of {self._floor_bytes} free bytes "
            "(--min-free); receive and remove go on; free some space"
        )

    @contextmanager
    def writing(self, length: int) -> Iterator[None]:
        """Reserve this many bytes, to be written within the block. The block does not begin if
        `require` raises."""
        with self._lock:
            self._writing_bytes += length
        try:
            # Asked without the lock, for which many threads would wait while one has no GIL.
            self.require(length, own_bytes=length)
            yield
        finally:
            with self._lock:
                self._writing_bytes -= length


def _too_full(detail: str) -> StoreUnavailable:
    return StoreUnavailable(detail, retry_after_seconds=5)
