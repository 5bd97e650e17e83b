"""The reaper, the only process that unlinks messages.

It syncs the file system once before each batch of unlinks, so that no older name of a removed
message can return after a power cut. After each full batch it pauses, so that others get the disk.
It follows no link and never leaves its folder: every name is unlinked relative to an open folder.
`QUEUE:.deleting` belongs to a deletion under way, and `QUEUE:.purged/N.open` to a purge. What a
process has under its lock stays, with its id, until that lets go (`mq.spool.message.in_use`).
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import structlog

from mq.command.logs import Once, report_left
from mq.config import DEDUPLICATION_SECONDS, SECOND_NS, ReaperConfig
from mq.disk.files import HIDDEN, Files
from mq.disk.listing import list_names
from mq.errors import ExitCode, StartRefused
from mq.lifecycle import Actor, Folder, MoveRefused
from mq.metrics.tally import ReaperCounts, own_counts
from mq.names import is_fifo
from mq.spool.disk_errors import FAULTS_OF_ONE_MESSAGE
from mq.spool.file_system import file_system_ns
from mq.spool.message.in_use import NOT_LOCKED, try_locks
from mq.spool.moves import Moves, OpenFolder
from mq.spool.queue.purged import PURGED_SUFFIX
from mq.spool.queue.queues import DELETING_SUFFIX
from mq.spool.removed_folders import is_removed_folder
from mq.spool.root import folder_of_root, open_without_root
from mq.spool.sets import OPEN_SUFFIX
from mq.spool.trouble import require_at
from mq_reaper.outside import require_removed

log = structlog.get_logger(__name__)

_SCAN_PAUSE_FACTOR = 20
"""If it took T to look at files that are kept, they are not looked at again within this many times
T. Time spent on unlinking does not count: a reaper with much to do must not fall behind."""

_FIFO_NS = DEDUPLICATION_SECONDS * SECOND_NS

_MAX_DEPTH = 1
"""How deep the parts of a batch lie in its folder."""

FILES_BETWEEN_LOOKS = 50
"""After this many the reaper looks whether their folder was moved away. On a network file system a
batch takes seconds."""

_FAULTS_OF_ONE_FILE = FAULTS_OF_ONE_MESSAGE | {
    errno.ENOTEMPTY,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
}


@dataclass
class _Pass:
    """What one pass over the folder has done."""

    files: int = 0
    batches: int = 0
    kept: int = 0
    errors: int = 0
    unlinking_seconds: float = 0.0


class Reaper:
    """Reaps `config.source`. Raises StartRefused."""

    def __init__(self, config: ReaperConfig, files: Files) -> None:
        self._config = config
        self._files = files
        self._keep_ns = int(config.keep_seconds * SECOND_NS)
        self._report = Once(report_left)
        self._pass = _Pass()
        self._started_ns = self._deadline_ns = 0
        self.counts = own_counts(ReaperCounts)
        self._moves = Moves(files, Actor.REAPER)
        found = folder_of_root(config.source)
        self._from = found or Folder.REMOVE
        try:
            self._moves.require(self._from, None)
        except MoveRefused as error:
            raise StartRefused(
                ExitCode.FOLDERS, f"folder {config.source}: {error}; give ROOT/remove"
            ) from error
        self._folder = open_without_root(files, config.source)
        if found is None:
            require_removed(config.source, list_names(self._files, self._folder))

    def close(self) -> None:
        self._files.close(self._folder)

    def run(self) -> None:
        """Reap until the process ends. Raises CommandFailed as `reap` does."""
        while True:
            started = time.monotonic()
            try:
                self.reap()
            except OSError as error:
                log.error("reaping failed; trying again", error=str(error))
                self._pass.errors += 1
            took = time.monotonic() - started
            done = self._pass
            if done.files:
                log.info("reaped", files=done.files, batches=done.batches, seconds=round(took, 3))
            time.sleep(
                self._config.retry_seconds
                if done.errors
                else max(self._config.rescan_seconds, _pause_seconds(done, took))
            )

    def reap(self) -> int:
        """Unlink everything that is due now, and return how many files that were. What cannot be
        unlinked stays and is reported once. Raises OSError if a sync or a listing fails, and
        CommandFailed if the folder was moved away."""
        require_at(self._folder, self._config.source)
        self._pass = _Pass()
        self._started_ns = self._now_ns()
        self._deadline_ns = self._started_ns - self._keep_ns
        folders: list[str] = []
        self._unlink_batches(self._folder, self._due(folders), self._is_in_place)
        for name in folders:
            self._reap_folder(self._folder, name, _MAX_DEPTH, self._is_in_place)
        self.counts.kept = self._pass.kept
        return self._pass.files

    def _is_in_place(self) -> bool:
        """Return True. Raises CommandFailed if a person has moved the folder away meanwhile, to
        keep what is in it."""
        require_at(self._folder, self._config.source)
        return True

    def _now_ns(self) -> int:
        """Return the time by the clock that gave the files theirs: that of a file server, or of
        this machine."""
        now_ns = time.time_ns()
        if self._files.is_of_network:
            with suppress(PermissionError):  # The folder is another user's.
                return file_system_ns(self._files, self._folder, now_ns)
        return now_ns

    def _due(self, folders: list[str]) -> Iterator[str]:
        """Yield the files that were removed long enough ago, and add folders of that age to
        `folders`."""
        for name in list_names(self._files, self._folder):
            status = self._status(self._folder, name)
            if status is None:
                continue
            if name.endswith(PURGED_SUFFIX) and stat.S_ISDIR(status.st_mode):
                # Each purge makes the folder younger. Its parts keep their age.
                folders.append(name)
            elif status.st_ctime_ns > self._deadline_of(name):
                self._pass.kept += 1
            elif not stat.S_ISDIR(status.st_mode):
                yield name
            elif name.endswith(DELETING_SUFFIX):
                pass  # Its deletion is under way.
            elif is_removed_folder(name):
                folders.append(name)
            else:
                self._report(name, "not the folder of a deleted queue")

    def _deadline_of(self, name: str) -> int:
        """Return the latest removal time at which a message is due now. One of a FIFO queue stays
        as long as the gateway may need its deduplication id."""
        is_kept = is_fifo(name.partition(":")[0])
        return min(self._deadline_ns, self._started_ns - _FIFO_NS) if is_kept else self._deadline_ns

    def _reap_folder(
        self, parent: int, name: str, depth: int, is_above: Callable[[], bool]
    ) -> None:
        """Empty and remove the folder of a deleted queue, of a batch that Spark has read, or of
        purges. In the last two the messages lie one folder deeper, in numbered parts. If a person
        moves it away meanwhile, or what is above it, the rest stays. Raises OSError if a sync
        fails."""

        def is_in_place() -> bool:
            return is_above() and self._leads_to(parent, name, folder)

        try:
            folder = self._files.open_folder(parent, name)
        except OSError as error:
            self._leave(name, error)
            return
        stay = self._pass.kept
        try:
            self._unlink_batches(
                folder, self._messages(folder, name, depth, is_in_place), is_in_place
            )
            is_done = self._pass.kept == stay and is_in_place()
        finally:
            self._files.close(folder)
        if not is_done:
            return
        try:
            self._files.remove_folder(parent, name)
        except OSError as error:
            self._leave(name, error)

    def _leads_to(self, parent: int, name: str, folder: int) -> bool:
        status = self._status(parent, name)
        return status is not None and os.path.samestat(status, os.fstat(folder))

    def _messages(
        self, folder: int, name: str, depth: int, is_in_place: Callable[[], bool]
    ) -> Iterator[str]:
        try:
            inside = list_names(self._files, folder)
        except OSError as error:
            self._leave(name, error)
            return
        for entry in inside:
            status = self._status(folder, entry)
            if status is None:
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield entry
            elif name.endswith(PURGED_SUFFIX) and (
                entry.endswith(OPEN_SUFFIX) or status.st_ctime_ns > self._deadline_of(name)
            ):
                self._pass.kept += 1
            elif depth and entry.removesuffix(OPEN_SUFFIX).isdigit():
                self._reap_folder(folder, entry, depth - 1, is_in_place)

    def _unlink_batches(
        self, folder: int, names: Iterator[str], is_in_place: Callable[[], bool]
    ) -> None:
        while batch := list(islice(names, self._config.batch_files)):
            started = time.monotonic()
            self._sync()
            if not self._unlink(folder, batch, is_in_place):
                return
            if len(batch) == self._config.batch_files:
                time.sleep(self._config.pause_seconds)
            self._pass.unlinking_seconds += time.monotonic() - started

    def _unlink(self, folder: int, batch: list[str], is_in_place: Callable[[], bool]) -> bool:
        """Unlink a batch. Returns False, with what is left of it, if its folder was moved away."""
        self._pass.batches += 1
        codes = try_locks(self._files, folder, batch)
        for number, (name, code) in enumerate(zip(batch, codes, strict=True)):
            if number % FILES_BETWEEN_LOOKS == 0 and not is_in_place():
                return False
            if code == errno.EWOULDBLOCK:
                self._pass.kept += 1
                continue
            try:
                if code not in NOT_LOCKED:
                    raise OSError(code, os.strerror(code), name)
                self._moves.unlink(OpenFolder(self._from, folder), name)
                self._pass.files += 1
                self.counts.reaped += not name.startswith(HIDDEN)  # Not a probe, not settings.
            except OSError as error:
                self._leave(name, error)
        return True

    def _leave(self, name: str, error: OSError) -> None:
        """Leave a file until the next pass, which comes sooner if the error concerns the disk. If
        it is gone, another reaper, a deletion or a person was faster."""
        if isinstance(error, FileNotFoundError):
            return
        self._report(name, f"{error.strerror}")
        self._pass.errors += error.errno not in _FAULTS_OF_ONE_FILE

    def _sync(self) -> None:
        """Sync on a new descriptor: an error then belongs to this batch, which is not unlinked."""
        fd = self._files.open_folder(self._folder, ".")
        try:
            self._files.sync_file_system(fd)
        finally:
            self._files.close(fd)

    def _status(self, folder: int, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            self._leave(name, error)
            return None


def _pause_seconds(done: _Pass, took_seconds: float) -> float:
    looking_seconds = took_seconds - done.unlinking_seconds
    share_kept = done.kept / max(done.kept + done.files, 1)
    return _SCAN_PAUSE_FACTOR * looking_seconds * share_kept
