"""Purging: every message that a queue has goes to `remove`, and the queue stays.

    1. nobody else has the queue    list what `delay` has of it, and its folder; a long one goes to
                                    remove/Q:.purged/N.open whole, and an empty one takes its place
    2. rounds of renames            queues/Q/ID, delay/Q:ID -> remove/Q:.purged/N.open/
    3. nobody else has the queue    what was not where it was listed, if it is in the other folder
    4. N.open -> N                  now the reaper may have it

While nobody else has the queue no message goes from the queue to `delay` or back. So whatever was
there at the beginning is in one of the two listings, however often it is received and comes back;
and in step 3 it is in `delay`, or else in the queue. Each message is removed by one rename, its own
or that of its folder, so a crash leaves it removed or as it was.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from mq.config import PURGE_LOCK_SECONDS
from mq.lifecycle import Folder, PurgeScope
from mq.names import QueueName, is_message_id
from mq.spool.disk_errors import FAULTS_OF_ONE_MESSAGE
from mq.spool.moves import OpenFolder
from mq.spool.queue.fresh_folder import bring_back, put_in_place, strays_among
from mq.spool.queue.hidden import hidden_names
from mq.spool.queue.purged import OpenPart, close_part, open_part
from mq.spool.queue.settings_file import SETTINGS_FILE, settings_lock
from mq.spool.spool import Spool

AT_ONCE = 500
"""This many renames are made in one go. No other process waits longer than they take."""

BREATH_SECONDS = 0.003
"""Then others have the queue for this time, which is longer than they sleep between two tries."""

ROUND_SECONDS = 0.1
"""After this time others have the worker."""

LONG_QUEUE = 1_000
"""A queue with at least this many messages is purged with its folder. A shorter one is emptied
nearly as fast, and its folder stays the one that others may have open."""


class Purge:
    """One purge of one queue. `begin` it, then `go_on` until that is False, and `close` it in any
    case. For workers: every call blocks, `go_on` for ROUND_SECONDS, `begin` for about a microsecond
    for each message of the queue or in `delay`, and both while others have the queue. `report`
    takes the name of a file that has to stay, and the reason."""

    def __init__(
        self, spool: Spool, queue: QueueName, scope: PurgeScope, report: Callable[[str, str], None]
    ) -> None:
        self.removed = 0
        self._spool = spool
        self._queue = queue
        self._scope = scope
        self._report = report
        self._part: OpenPart | None = None
        self._left: dict[Folder, list[str]] = {Folder.DELAY: [], Folder.QUEUES: []}
        self._moved_on: list[str] = []

    def begin(self) -> None:
        """Find out what is there. Raises FileNotFoundError or NotADirectoryError if there is no
        such queue, BlockingIOError if another process holds it for PURGE_LOCK_SECONDS, OSError."""
        self._part = open_part(self._spool, self._queue)
        names = self._spool.names_in_queue(self._queue)
        is_long = len(names) >= LONG_QUEUE and not strays_among(names)
        with self._settings_kept() as are_kept:
            locked = fd = self._spool.queues.lock_alone(self._queue, PURGE_LOCK_SECONDS)
            try:
                if self._scope is PurgeScope.ALL:
                    self._left[Folder.DELAY] = hidden_names(self._spool, self._queue)
                if is_long and are_kept:
                    fd = self._take_folder(locked)
                if fd == locked:
                    self._left[Folder.QUEUES] = self._ready()
            finally:
                self._spool.files.close(fd)
        if fd != locked:
            self._look_at_taken()

    @contextmanager
    def _settings_kept(self) -> Iterator[bool]:
        """Keep others from changing the queue's settings. Yields False if that is not possible."""
        with ExitStack() as stack:
            try:
                stack.enter_context(settings_lock(self._spool, self._queue))
            except OSError:
                yield False
            else:
                yield True

    def _take_folder(self, fd: int) -> int:
        """Make the queue's folder, which `fd` keeps locked, the part. Returns the descriptor of the
        folder that the queue has now, which is `fd` if its folder could not be taken."""
        part = self._part
        assert part is not None
        try:
            is_taken = put_in_place(self._spool, self._queue, fd, part.name, part.fd)
        except FileNotFoundError:
            self._require_part()
            raise
        if not is_taken:
            return fd
        self._part = part._replace(fd=fd)
        return part.fd

    def _look_at_taken(self) -> None:
        """Count what is in the folder that was taken, which nobody changes any more."""
        assert self._part is not None
        names = self._spool.names_below(Folder.REMOVE, self._part.name)
        strays = strays_among(names)
        self.removed += len(names) - len(strays) - names.count(SETTINGS_FILE)
        for name in strays:
            try:
                bring_back(self._spool, self._queue, self._part.fd, name)
            except OSError as error:
                self._report(f"{Folder.REMOVE}/{self._part.name}/{name}", f"{error.strerror}")

    def go_on(self) -> bool:
        """Do one round. Returns False once nothing is left. Raises what `begin` raises."""
        deadline = time.monotonic() + ROUND_SECONDS
        while self._remove_listed() or self._remove_moved_on():
            if time.monotonic() >= deadline:
                return True
        return False

    def _remove_listed(self) -> bool:
        for folder in (Folder.QUEUES, Folder.DELAY):
            names = _take(self._left[folder])
            if names:
                with self._between_moves():
                    gone = self._remove(folder, names)
                if self._scope is PurgeScope.ALL:
                    self._moved_on += map(self._id, gone)
                return True
        return False

    def _remove_moved_on(self) -> bool:
        ids = _take(self._moved_on)
        if ids:
            with self._alone():
                hidden = [f"{self._queue}:{each}" for each in ids]
                gone = self._remove(Folder.DELAY, hidden)
                self._remove(Folder.QUEUES, [self._id(each) for each in gone])
        return bool(ids)

    def close(self) -> None:
        if self._part is not None:
            part, self._part = self._part, None
            close_part(self._spool, part)

    def _ready(self) -> list[str]:
        return [name for name in self._spool.names_in_queue(self._queue) if is_message_id(name)]

    @contextmanager
    def _between_moves(self) -> Iterator[None]:
        """Let no other process be in the middle of a move. Where that is a link and an unlink, it
        would leave a message that is removed meanwhile under its new name."""
        files = self._spool.files
        if files.renames_without_replacing or files.is_of_network:
            yield
        else:
            with self._alone():
                yield

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep all other processes from the queue, by the lock of its folder. Afterwards they have
        it for a moment."""
        fd = self._spool.queues.lock_alone(self._queue, PURGE_LOCK_SECONDS)
        try:
            yield
        finally:
            self._spool.files.close(fd)
        time.sleep(BREATH_SECONDS)

    def _id(self, name: str) -> str:
        return name.rpartition(":")[2]

    def _remove(self, folder: Folder, names: Sequence[str]) -> list[str]:
        """Move messages of a folder into the part. Returns those that were not there."""
        assert self._part is not None
        spool, gone = self._spool, []
        if folder is Folder.QUEUES:
            opened = spool.queues.open(self._queue)
            source = OpenFolder(folder, opened.fd)
        else:
            source = spool.opened(folder)
        target = OpenFolder(Folder.REMOVE, self._part.fd)
        codes = spool.moves.rename_all(source, target, names)
        self.removed += codes.count(0)
        for name, code in zip(names, codes, strict=True):
            if code == errno.ENOENT:
                gone.append(name)
            elif code == errno.EEXIST:
                self.removed += self._remove_aside(folder, name)
            elif code in FAULTS_OF_ONE_MESSAGE:
                self._report(self._path(folder, name), os.strerror(code))
            elif code:
                raise OSError(code, os.strerror(code), self._path(folder, name))
        if gone:
            self._require_part()
        return gone

    def _require_part(self) -> None:
        """Raise OSError if the part is gone, so that no message can be moved there: a person has
        emptied `remove`, for example."""
        assert self._part is not None
        if not os.fstat(self._part.fd).st_nlink:
            why = f"{Folder.REMOVE}/{self._part.name} was removed while a purge was filling it"
            raise OSError(errno.ESTALE, why)

    def _remove_aside(self, folder: Folder, name: str) -> bool:
        """Remove a message whose name the part has already. Returns whether it was there."""
        assert self._part is not None
        target = f"{self._part.name}/{name}"
        source = f"{self._queue}/{name}" if folder is Folder.QUEUES else name
        return self._spool.move_aside(folder, source, Folder.REMOVE, target) is not None

    def _path(self, folder: Folder, name: str) -> str:
        return f"{folder}/{self._queue}/{name}" if folder is Folder.QUEUES else f"{folder}/{name}"


def _take(names: list[str]) -> list[str]:
    taken = names[-AT_ONCE:]
    del names[-AT_ONCE:]
    return taken
