"""Folder: a queue's folder held open, with an index that is brought up to date before each use.

File system events report all changes in the order in which they were made. Where there are none (a
limit of the system is reached, the folder is on a network) it is listed instead.
"""

from __future__ import annotations

import errno
import os
import stat
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock

from mq.config import RELIST_PAUSE_FACTOR
from mq.disk.files import Files
from mq.spool.file_system import file_system_kind, is_of_network
from mq.spool.watch import Change, Watch
from vsqs.bell import Bell
from vsqs.index import Index
from vsqs.limits import LEAD_PAUSE_SECONDS, MAX_LEAD_SECONDS, MAX_LOOKS, NEW_SECONDS, RESCAN_SECONDS
from vsqs.listing import list_folder
from vsqs.names import NEW, UNITS_PER_SECOND, Name, other_unit, parse_name
from vsqs.opening import open_queue_folder, unit_in
from vsqs.turn import Turn

_KEY = "queue"
_TICK_NS = 10_000_000
"""The kernel's clock for mtime may be this far behind (one tick at 100 Hz)."""


class FolderDropped(Exception):
    """Another thread had an error, or closed the queue, while this one waited. Begin again."""


class QueueFolder:
    """A folder that is opened once, for all threads. `users` are the threads inside an operation;
    after `drop` the last one closes it. Call every method but `sync` and `close` with `lock` held.
    """

    def __init__(
        self, path: str, unit: str | None, files: Files, clock_ns: Callable[[], int], lock: Lock
    ) -> None:
        self.path = path
        self.files = files
        self.index = Index()
        self.users = 0
        self.is_dropped = False
        self._clock_ns = clock_ns
        self._check_new_at: dict[int, float] = {}
        self._listed_mtime_ns: int | None = None
        self._next_rescan = 0.0
        self._has_warned = False
        self.bell = Bell(lock)
        self._watch: Watch | None = None
        self.fd = -1
        try:
            self._open(unit)
        except BaseException:
            self.close()
            raise

    def _open(self, unit: str | None) -> None:
        self.fd = open_queue_folder(self.files, self.path)
        self.unit = unit or unit_in(self.files, self.fd)
        self.units_per_second = UNITS_PER_SECOND[self.unit]
        self._opened = os.fstat(self.fd)
        self.turn = Turn(self.files, self.fd, self.unit)
        self._changed_at = self._in_units(self._opened.st_mtime_ns + _TICK_NS)
        self._watch = self._start_watch()
        self._list()

    def _start_watch(self) -> Watch | None:
        """Start to watch, before the first listing, so that nothing is missed in between. No event
        tells what another machine changes."""
        if is_of_network(file_system_kind(Path(self.path))):
            return None
        try:
            watch = Watch()
        except OSError:
            return None
        try:
            watch.add(_KEY, f"/proc/self/fd/{self.fd}/.", attributes=True)
        except OSError:
            watch.close()
            return None
        return watch

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self.bell.close(self.files)
        if self.fd >= 0:
            self.files.close(self.fd)

    def drop(self) -> None:
        """Let the last thread that leaves the folder close it."""
        self.is_dropped = True
        self.bell.ring()

    def now(self) -> int:
        """Return the time in the queue's unit."""
        return self._in_units(self._clock_ns())

    def next_time(self) -> int:
        """Return the time of a new message: now, but later than all messages that were seen, even
        when the clock goes back. The folder's mtime replaces those that were deleted just before it
        was opened."""
        now = self.now()
        later = max(now, self.index.newest + 1)
        if self._changed_at - now < MAX_LEAD_SECONDS * self.units_per_second:
            later = max(later, self._changed_at + 1)
        while self.index.is_taken(later):
            later += 1
        return later

    def wait_for(self, created: int) -> None:
        """Wait until the clock has come to this time, if that is soon: more messages are published
        than there are names, and names must be times. If it is not soon, the clock was set back."""
        lead = (created - self.now()) / self.units_per_second
        if 0 < lead <= MAX_LEAD_SECONDS:
            time.sleep(min(lead, LEAD_PAUSE_SECONDS))

    def _in_units(self, ns: int) -> int:
        return ns * self.units_per_second // 1_000_000_000

    def sync(self) -> None:
        self.files.sync(self.fd)

    # What is in it

    def refresh(self) -> None:
        """Bring the index up to date, and sweep."""
        if self._watch is None:
            self._list()
        else:
            # After a listing this is done once more: the listing may have missed what was renamed
            # meanwhile.
            while self._take_in(self._watch):
                self._list()
        self._sweep()

    def look_for_older(self) -> None:
        """Let `index.oldest` be the oldest message, after a refresh. That listing may have missed
        messages that were published meanwhile, but none that is older than all that it found. So a
        second listing misses none of the older ones."""
        if self._watch is None and self.index.size:
            self._list()

    def look_for(self, created: int) -> list[Name]:
        """Return the names of the message of that time, ready or consumed, as the folder itself has
        them. The index may not know them: an event may be on its way.

        A listing is as of one moment, and so misses no message that is renamed. Where it is not (a
        network, FUSE, btrfs) a listing that found nothing counts if the folder has not changed
        meanwhile; otherwise it is tried again, MAX_LOOKS times at most.
        """
        beginning = str(created).encode()
        for _ in range(MAX_LOOKS):
            listed = list_folder(self.files, self.fd, lambda name: name.startswith(beginning))
            found = [name for name in listed.names if name.time == created and not name.is_new]
            if found or listed.quiet_mtime_ns is not None:
                return found
        return []

    def wait(self, seconds: float) -> None:
        """Wait until something may have changed. Raises FolderDropped if another thread had an
        error."""
        events = None if self._watch is None else self._watch.fileno()
        self.bell.wait(events, min(seconds, RESCAN_SECONDS))
        if self.is_dropped:
            raise FolderDropped

    def rescan(self) -> bool:
        """Look now and then for what events, or listings, do not tell. Returns True if that listed
        the folder; without events each refresh does."""
        now = time.monotonic()
        if now < self._next_rescan:
            return False
        self._next_rescan = now + RESCAN_SECONDS
        if self.require_at_path().st_mtime_ns == self._listed_mtime_ns or self._watch is None:
            return False
        self._list()
        return True

    def require_at_path(self) -> os.stat_result:
        """Return the folder's status. Raises FileNotFoundError if the path does not lead there any
        more: the folder, or one above it, was moved or deleted, a link changed, or something was
        mounted. No event reports most of that."""
        status = os.stat(self.path)
        if not os.path.samestat(status, self._opened):
            raise FileNotFoundError(
                errno.ENOENT, "the queue's folder was replaced by another one", self.path
            )
        return status

    def changed(self, old: Name | None, new: Name | None) -> None:
        """Note that this process has renamed `old` to `new`; None means a file that did not exist
        before, or does not any more."""
        if old is not None:
            self.index.discard(old)
        if new is not None:
            self.index.add(new)
        self.bell.ring()

    def _take_in(self, watch: Watch) -> bool:
        """Take in the events so far. Returns True if some were lost."""
        are_lost = False
        events = watch.read_whole_moves(self.fd)
        for _, text, change in events:
            name = parse_name(text)
            if change is Change.FOLDER_WENT:
                self.require_at_path()
            elif change is Change.OVERFLOW:
                are_lost = True
            elif name is None:
                continue
            elif change is Change.WENT:
                self.index.discard(name)
                if name.is_new:
                    self._check_new_at.pop(name.time, None)
            else:
                self._came(name, change)
        if events:
            self.bell.ring()
        return are_lost

    def _came(self, name: Name, change: Change) -> None:
        # What is gone by now was there all the same: another event reports that it went.
        with suppress(FileNotFoundError):
            status = os.stat(str(name), dir_fd=self.fd, follow_symlinks=False)
            if not (name.is_new or stat.S_ISREG(status.st_mode)):
                return
        if change is Change.CHANGED:
            self.index.discard(name)  # It may have been left, and may be read now.
        self.index.add(name)
        if name.is_new:
            age = NEW_SECONDS if change is Change.CAME else 0.0
            self._check_new_at[name.time] = time.monotonic() + age

    def _list(self) -> None:
        started = time.monotonic()
        names, self._listed_mtime_ns = list_folder(self.files, self.fd)
        self.index.load(names)
        self._check_new_at = {name.time: 0.0 for name in names if name.is_new}
        if self._watch is not None:
            now = time.monotonic()
            pause = max(RESCAN_SECONDS, RELIST_PAUSE_FACTOR * (now - started))
            self._next_rescan = now + pause
        self._warn_of_other_unit()

    def _warn_of_other_unit(self) -> None:
        other = other_unit(self.unit, self.index.newest)
        if other is not None and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"queue {self.path}: names like {self.index.newest} look as if they were in "
                f"{other}, not {self.unit}; open it with unit={other!r}, or give --unit {other}",
                stacklevel=2,
            )

    # What others left

    def _sweep(self) -> None:
        """Unlink every `.new` that was not written to for so long that its publisher must be dead.
        A publisher that is still alive starts again."""
        now = time.monotonic()
        for created, due in list(self._check_new_at.items()):
            if due <= now:
                self._sweep_new(Name(created, NEW))

    def _sweep_new(self, name: Name) -> None:
        self._check_new_at.pop(name.time, None)
        try:
            status = os.stat(str(name), dir_fd=self.fd, follow_symlinks=False)
            age = self._file_time() - status.st_mtime
            if not stat.S_ISREG(status.st_mode):
                return
            if age > NEW_SECONDS:
                self.index.discard(name)
                self.files.unlink(self.fd, str(name))
            else:
                self._check_new_at[name.time] = time.monotonic() + NEW_SECONDS - age
        except FileNotFoundError:
            self.index.discard(name)
        except OSError as error:
            # It is immutable, another user's, on a read-only mount, or something is mounted on it.
            # It is in nobody's way.
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS):
                raise

    def _file_time(self) -> float:
        """Return the time by the clock that files have theirs from, or an earlier one: of a file
        server's clock, the last change of the folder is all that can be seen."""
        now = time.time()
        return now if self._watch is not None else min(now, os.fstat(self.fd).st_mtime)
