"""The barrier: the one call that makes the file calls of a round durable. It is one object, which
can be replaced.

The crash model it relies on: metadata changes form one ordered log (ext4 with a journal, xfs,
btrfs), so a power cut keeps a prefix of it, and syncing either folder of a rename makes that rename
and all earlier changes durable (on btrfs `Files.sync` sees to that). Unsynced file data may be
missing or torn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from mq.config import FEW_UNSYNCED
from mq.lifecycle import Folder
from mq.spool.folders import Spool


class Unsynced(NamedTuple):
    """What an operation's file calls leave for the barrier to sync: descriptors of files, and
    folders relative to the root (`new`, `queues/orders`). `has_closed_files` says that data was
    written to files which are closed by now, so that only a sync of everything finds it. `sources`
    are folders from which names were moved into one of `folders`, and a sync of that one may be
    enough (`SyncBarrier`)."""

    files: tuple[int, ...]
    folders: tuple[str, ...]
    has_closed_files: bool = False
    sources: tuple[str, ...] = ()


class Barrier(Protocol):
    """Makes durable what operations did. Another barrier can take its place without a change
    elsewhere, for example a write-ahead journal in front of the same folders."""

    def make_durable(self, unsynced: Sequence[Unsynced]) -> None:
        """Make everything that is named survive a power cut. Raises OSError."""

    def reopen(self) -> None:
        """Forget descriptors that have reported an error."""

    def close(self) -> None: ...


class SyncBarrier:
    """Syncs few files and folders by fsync, and many by syncfs.

    Of a move it syncs the folder that the name came to, and not its source, where changes keep
    their order and a move is one change. While others write to that file system, each sync makes it
    write its log once more.

    The descriptor for syncfs is held from the start, because a writeback error is reported once to
    each descriptor that was open when it happened."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._fd = self._open()

    def _open(self) -> int:
        return self._spool.files.open_folder(None, str(self._spool.root))

    def make_durable(self, unsynced: Sequence[Unsynced]) -> None:
        files = [fd for each in unsynced for fd in each.files]
        folders = {folder for each in unsynced for folder in each.folders}
        if not self._moves_are_whole():
            folders.update(folder for each in unsynced for folder in each.sources)
        are_few = len(files) + len(folders) <= FEW_UNSYNCED
        must_be_all = any(each.has_closed_files for each in unsynced)
        if must_be_all or not are_few or not self._sync_each(files, folders):
            self._spool.files.sync_file_system(self._fd)

    def _moves_are_whole(self) -> bool:
        """Whether the folder that a name came to brings all of the move with it. A move by link and
        unlink ends in the folder that it came from."""
        return self._spool.keeps_order and self._spool.files.renames_without_replacing

    def _sync_each(self, files: list[int], folders: set[str]) -> bool:
        """Sync each by itself. Returns False if a folder is gone: another process has just deleted
        the queue."""
        sync = self._spool.files.sync
        for fd in files:
            sync(fd)
        for folder in folders:
            parent, _, queue_name = folder.partition("/")
            if not queue_name:
                sync(self._spool.fd(Folder(parent)))
                continue
            try:
                opened = self._spool.queues.opened(queue_name)
            except (FileNotFoundError, NotADirectoryError):
                return False
            sync(opened.fd)
        return True

    def reopen(self) -> None:
        self._spool.files.replace_fd(self._open(), self._fd)

    def close(self) -> None:
        self._spool.files.close(self._fd)
