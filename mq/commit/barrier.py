"""The barrier: the one call that makes the file calls of a round durable. It is one object, which
can be replaced.

The crash model it relies on: metadata changes form one ordered log (ext4 with a journal, xfs,
btrfs), so a power cut keeps a prefix of it, and syncing either folder of a rename makes that rename
and all earlier changes durable (on btrfs `Files.sync` sees to that). Unsynced file data may be
missing or torn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from mq.config import FEW_UNSYNCED
from mq.lifecycle import Folder
from mq.spool.folders import Spool


class Unsynced(NamedTuple):
    """What an operation's file calls leave for the barrier to sync: descriptors of files, and
    folders relative to the root (`new`, `queues/orders`). `has_closed_files` says that data was
    written to files which are closed by now, so that only a sync of everything finds it. `implied`
    are folders whose changes a sync of `files` and `folders` may bring with it (`SyncBarrier`):
    that from which a name was moved to one of `folders`, and that in which one of `files` got its
    name or was changed."""

    files: tuple[int, ...]
    folders: tuple[str, ...]
    has_closed_files: bool = False
    implied: tuple[str, ...] = ()


class Barrier(Protocol):
    """Makes durable what operations did. Another barrier can take its place without a change
    elsewhere, for example a write-ahead journal in front of the same folders."""

    def make_durable(self, unsynced: Sequence[Unsynced]) -> None:
        """Make everything that is named survive a power cut. Raises OSError."""

    def prepare(self, unsynced: Sequence[Unsynced]) -> Callable[[], None]:
        """Return what does the same when it is called, on any thread and beside other operations.
        Those that wait for it keep their files open."""

    def reopen(self) -> None:
        """Forget descriptors that have reported an error."""

    def close(self) -> None: ...


class SyncBarrier:
    """Syncs one file and few folders by fsync, and more by syncfs.

    Where all changes are entries of one log, a sync of one thing that an operation has changed last
    makes all of the operation durable: of a new message its file, of a move the folder that the
    name came to. Each further sync makes the disk flush its cache once more, and the log too while
    others write.

    The descriptor for syncfs is held from the start, because a writeback error is reported once to
    each descriptor that was open when it happened."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._fd = self._open()

    def _open(self) -> int:
        return self._spool.files.open_folder(None, str(self._spool.root))

    def make_durable(self, unsynced: Sequence[Unsynced]) -> None:
        few = self._few(unsynced)
        if few is None or not self._sync_each(*few):
            self._spool.files.sync_file_system(self._fd)

    def prepare(self, unsynced: Sequence[Unsynced]) -> Callable[[], None]:
        few = self._few(unsynced)
        # Another operation may close the folder of a queue, and its number be given to another.
        if few is None or any("/" in folder for folder in few[1]):
            return partial(self._spool.files.sync_file_system, self._fd)
        files, folders = few
        fixed = [self._spool.fd(Folder(folder)) for folder in folders]
        return partial(self._sync_all, [*files, *fixed])

    def _few(self, unsynced: Sequence[Unsynced]) -> tuple[list[int], set[str]] | None:
        """Return the files and folders that are to be synced one by one, or None for a syncfs."""
        files = [fd for each in unsynced for fd in each.files]
        folders = {folder for each in unsynced for folder in each.folders}
        if not self._is_one_log():
            folders.update(folder for each in unsynced for folder in each.implied)
        are_few = len(files) <= 1 and len(files) + len(folders) <= FEW_UNSYNCED
        must_be_all = any(each.has_closed_files for each in unsynced)
        return None if must_be_all or not are_few else (files, folders)

    def _is_one_log(self) -> bool:
        """Whether what is implied is durable too. Without a call for it, a move is a link and then
        an unlink in the folder that the name came from; a new file is moved to its name."""
        files = self._spool.files
        is_each_one_change = files.renames_without_replacing and files.has_unnamed_files
        return self._spool.has_one_log and is_each_one_change

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

    def _sync_all(self, fds: Sequence[int]) -> None:
        for fd in fds:
            self._spool.files.sync(fd)

    def reopen(self) -> None:
        self._spool.files.replace_fd(self._open(), self._fd)

    def close(self) -> None:
        self._spool.files.close(self._fd)
