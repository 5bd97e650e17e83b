"""The barrier: the one call that makes the file calls of a round durable.

The crash model it relies on: metadata changes form one ordered log (ext4 with a journal, xfs,
btrfs), so a power cut keeps a prefix of it, and syncing either folder of a rename makes that rename
and all earlier changes durable (on btrfs `Files.sync` sees to that). Unsynced file data may be
missing or torn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from mq.disk.calls import STAMP, WRITE_OUT, check, run_one
from mq.disk.libc import BEGIN, WHOLE
from mq.lifecycle import Folder
from mq.spool.open_queues import OpenQueue
from mq.spool.spool import Spool

FEW_UNSYNCED = 4
"""Up to this many folders and one file are synced one by one. For more, one syncfs is cheaper, even
if others write 20 MB/s to the same file system: three new files take 1.6 ms, and one syncfs 0.9."""

MOST_WRITTEN_OUT = 32
"""The data of up to this many new files is written out before one sync of the log. For more, a
syncfs takes less of the processor."""


class Unsynced(NamedTuple):
    """What an operation's file calls leave for the barrier to sync: descriptors of files, and
    folders relative to the root (`new`, `queues/orders`). `has_closed_files` says that data was
    written to files which are closed by now, so that only a sync of everything finds it. `implied`
    are folders whose changes a sync of `files` and `folders` may make durable too (see `Barrier`):
    the one from which a name was moved to one of `folders`, and the one in which one of `files` got
    its name or was changed. `messages` is how many were written or moved: a sync takes longer for
    more."""

    files: tuple[int, ...]
    folders: tuple[str, ...]
    has_closed_files: bool = False
    implied: tuple[str, ...] = ()
    messages: int = 1


class Barrier:
    """Makes durable what operations did: one thing by fsync, few by an fsync for each, and more by
    syncfs.

    Where all changes are entries of one log, a sync of the thing that an operation changed last
    makes the whole operation durable: the file of a new message, the folder that a moved name came
    to. Each further sync flushes the disk's cache once more, and the log too while others write.
    Where that is quicker than a syncfs (`Spool.has_data_log`), the data of the new files is written
    out, and then one sync of the folder `new` flushes the log. Its time is set just before, so that
    its entry in the log comes after all others.

    On a network file system everything is synced one by one.

    The descriptor for syncfs is held from the start, because a writeback error is reported once to
    each descriptor that was open when it happened."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._fd = self._open()

    def _open(self) -> int:
        return self._spool.files.open_folder(None, str(self._spool.root))

    def make_durable(self, unsynced: Sequence[Unsynced]) -> None:
        """Make all that `unsynced` names survive a power cut. Raises OSError."""
        self.prepare(unsynced)()

    def prepare(self, unsynced: Sequence[Unsynced]) -> Callable[[], None]:
        """Return a call that does what `make_durable` does, on any thread and while other
        operations run. The operations that wait for it keep their files open."""
        files = [fd for each in unsynced for fd in each.files]
        # The folder that a name came to is synced before the one that it left: what is lost between
        # the two syncs is not the message.
        folders = dict.fromkeys(folder for each in unsynced for folder in each.folders)
        is_one_log = self._is_one_log()
        if not is_one_log:
            folders |= dict.fromkeys(folder for each in unsynced for folder in each.implied)
        has_closed_files = any(each.has_closed_files for each in unsynced)
        if self._spool.files.is_of_network:
            return self._prepare_each(files, folders, has_closed_files)
        if has_closed_files:
            return self._sync_all
        are_several = len(files) + len(folders) > 1 and len(files) <= MOST_WRITTEN_OUT
        if is_one_log and self._spool.has_data_log and are_several:
            return partial(self._sync_log, files)
        if len(files) > 1 or len(files) + len(folders) > FEW_UNSYNCED:
            return self._sync_all
        try:
            opened = [self._open_at(folder) for folder in folders]
        except OSError:
            return self._sync_all  # Another process has just deleted the queue, for example.
        return partial(self._sync_each, files, opened)

    def _prepare_each(
        self, files: Sequence[int], folders: Iterable[str], is_more: bool
    ) -> Callable[[], None]:
        """Return a call that syncs each of these, and then, with `is_more` or if a folder is gone,
        all that this process has changed. On a network file system no sync of everything finds what
        another host has written, or a file of which only attributes were changed."""
        opened: list[int | OpenQueue] = []
        for folder in folders:
            try:
                opened.append(self._open_at(folder))
            except OSError:
                is_more = True

        def sync() -> None:
            self._sync_each(files, opened)
            if is_more:
                self._sync_all()

        return sync

    def _is_one_log(self) -> bool:
        """Whether a sync makes what is implied durable too. Where the system lacks the calls, a
        move is a link and then an unlink in the folder that the name came from, and a new file is
        moved to its name."""
        files = self._spool.files
        is_each_one_change = files.renames_without_replacing and files.has_unnamed_files
        return self._spool.has_one_log and is_each_one_change

    def _open_at(self, folder: str) -> int | OpenQueue:
        """Return an open queue, or the descriptor of a folder that stays open."""
        parent, _, queue_name = folder.partition("/")
        if queue_name:
            return self._spool.queues.opened(queue_name)
        return self._spool.fd(Folder(parent))

    def _sync_all(self) -> None:
        self._spool.files.sync_file_system(self._fd)

    def _sync_each(self, files: Sequence[int], folders: Sequence[int | OpenQueue]) -> None:
        for each in (*files, *folders):
            self._spool.files.sync(each.fd if isinstance(each, OpenQueue) else each)

    def _sync_log(self, new_files: Sequence[int]) -> None:
        files, new = self._spool.files, self._spool.fd(Folder.NEW)
        begun = [(WRITE_OUT, fd, BEGIN) for fd in new_files]
        ended = [(WRITE_OUT, fd, WHOLE) for fd in new_files]
        try:
            check(run_one(files, (*begun, *ended, (STAMP, new, time.time_ns()))))
        except PermissionError:
            self._sync_all()  # The folder belongs to another user.
        else:
            files.sync(new)

    def reopen(self) -> None:
        """Replace the descriptor, which has reported its error."""
        self._spool.files.replace_fd(self._open(), self._fd)

    def close(self) -> None:
        self._spool.files.close(self._fd)
