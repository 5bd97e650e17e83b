"""Count messages by queue and state. They are counted when someone asks, never as they pass."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mq.config import SECOND_NS
from mq.disk.files import HIDDEN
from mq.lifecycle import Folder
from mq.names import QueueName, parse_file_name
from mq.spool.disk_errors import FAULTS_OF_ONE_QUEUE
from mq.spool.message.seal import due_ns, is_due
from mq.spool.queue.listing import LAST_UNREADABLE, UNREADABLE_NS, list_queue, oldest_ns
from mq.spool.spool import Spool
from mq.store.hidden_counts import is_leased
from mq.store.index.ready_queue import ReadyQueue
from mq.store.shared_state import Workspace

SURVEY_PAUSE_FACTOR = 20
"""A survey that took T is not repeated within this many times T, however often metrics are asked
for: counting takes a twentieth of one processor at most."""


class Ready(NamedTuple):
    """The ready messages of a queue. `oldest_ns` is when the oldest was published of those that can
    be read, None if there is none."""

    messages: int
    oldest_ns: int | None


class _Listed(NamedTuple):
    """What a listing found in a queue's folder when that had this inode and mtime."""

    inode: int
    mtime_ns: int
    ready: Ready


class QueueSurvey(NamedTuple):
    """The messages of a queue by state. Ages are as of the time of its survey."""

    ready: int = 0
    leased: int = 0
    delayed: int = 0
    oldest_ns: int | None = None

    def join(self, other: QueueSurvey) -> QueueSurvey:
        """Return the survey of two queues as if they were one."""
        ages = [each for each in (self.oldest_ns, other.oldest_ns) if each is not None]
        return QueueSurvey(
            self.ready + other.ready,
            self.leased + other.leased,
            self.delayed + other.delayed,
            min(ages, default=None),
        )

    def age_seconds(self, time_ns: int) -> float | None:
        """Return the seconds since the oldest ready message was published, or None if none is
        ready."""
        return None if self.oldest_ns is None else max(time_ns - self.oldest_ns, 0) / SECOND_NS


class Survey(NamedTuple):
    """One look at a root, taken at `time_ns`. `files` is the number of files in the folders with
    names of the form QUEUE:ID, and `mover_lag_ns` how long the message that has been due longest
    has waited."""

    time_ns: int
    queues: Mapping[str, QueueSurvey]
    files: Mapping[Folder, int]
    mover_lag_ns: int


def known_ready(work: Workspace) -> dict[QueueName, Ready]:
    """Return what the indexes know. No folder is listed for this."""
    work.ready.drain()
    known: dict[QueueName, Ready] = {}
    for queue in work.ready.names():
        index = work.ready.get(queue)
        if index is not None and index.is_loaded:
            known[queue] = Ready(len(index), oldest_known_ns(index))
    return known


def oldest_known_ns(index: ReadyQueue) -> int | None:
    """Return when the oldest message was published of those that can be read, in ns since 1970, or
    None if there is none."""
    if (first_ns := index.oldest_ns()) != UNREADABLE_NS:
        return first_ns
    keys = map(index.key, index.behind(LAST_UNREADABLE, 1))
    return oldest_ns(filter(None, keys))


class Surveyor:
    """Surveys one root. Blocking, for one worker at a time. A survey that took long is returned
    again for a while."""

    def __init__(
        self,
        spool: Spool,
        clock_ns: Callable[[], int],
        report: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        """`report` is called with a queue whose folder cannot be opened or read, and why. Nothing
        in it is counted."""
        self._spool = spool
        self._clock_ns = clock_ns
        self._report = report
        self._last: Survey | None = None
        self._next = 0.0
        self._listed: dict[QueueName, _Listed] = {}

    def survey(self, known: Mapping[QueueName, Ready]) -> Survey:
        """Count all messages. This takes about 1 µs for each ready message of a queue that is not
        in `known` and has changed since the survey before, and 8 µs for each message in `delay`.
        Raises OSError."""
        started = time.monotonic()
        if self._last is None or started >= self._next:
            self._last = self._look(known)
            ended = time.monotonic()
            self._next = ended + SURVEY_PAUSE_FACTOR * (ended - started)
        return self._last

    def _look(self, known: Mapping[QueueName, Ready]) -> Survey:
        now_ns = self._clock_ns()
        found: dict[str, QueueSurvey] = {}
        before, self._listed = self._listed, {}
        for queue in self._spool.queue_names():
            ready = known.get(queue) or self._list(queue, before.get(queue))
            if ready is not None:
                found[queue] = QueueSurvey(ready.messages, oldest_ns=ready.oldest_ns)
        delay = self._names(Folder.DELAY)
        lag_ns = self._add_hidden(delay, found, now_ns)
        files = {folder: len(self._names(folder)) for folder in (Folder.NEW, Folder.REMOVE)}
        files[Folder.DELAY] = len(delay)
        files[Folder.CORRUPT] = self._count_corrupt()
        return Survey(now_ns, found, files, lag_ns)

    def _names(self, folder: Folder) -> list[str]:
        """Return the names in a folder without hidden ones, which are not messages."""
        return [name for name in self._spool.names(folder) if not name.startswith(HIDDEN)]

    def _list(self, queue: QueueName, before: _Listed | None) -> Ready | None:
        try:
            if before is not None and self._is_unchanged(queue, before):
                self._listed[queue] = before
                return before.ready
            listing = list_queue(self._spool, queue)
        except OSError as error:
            if error.errno not in FAULTS_OF_ONE_QUEUE:
                raise
            self._report(f"{Folder.QUEUES}/{queue}", str(error.strerror))
            return None
        if listing is None:
            return None
        ready = Ready(len(listing.keys), oldest_ns(listing.keys))
        if listing.mtime_ns is not None:
            self._listed[queue] = _Listed(listing.inode, listing.mtime_ns, ready)
        return ready

    def _is_unchanged(self, queue: QueueName, before: _Listed) -> bool:
        status = self._spool.status(Folder.QUEUES, queue)
        return status is not None and (status.st_ino, status.st_mtime_ns) == before[:2]

    def _add_hidden(self, names: Iterable[str], found: dict[str, QueueSurvey], now_ns: int) -> int:
        """Count what is in `delay` of the queues that were found. Returns how long the message that
        has been due longest has waited, in ns."""
        first_due_ns = now_ns
        for name in names:
            parsed = parse_file_name(name)
            status = self._status_in_delay(name)
            if parsed is None or status is None:
                continue
            due = due_ns(status, 0)
            if is_due(due, now_ns):
                first_due_ns = min(first_due_ns, due)
            queue = found.get(parsed[0])
            leased = None if queue is None else is_leased(self._spool, name)
            if queue is not None and leased is not None:
                found[parsed[0]] = queue._replace(
                    leased=queue.leased + leased, delayed=queue.delayed + (not leased)
                )
        return now_ns - first_due_ns

    def _status_in_delay(self, name: str) -> os.stat_result | None:
        """Return the status of a file, or None if it is gone. One that cannot be looked at is left
        to the mover, which says why."""
        try:
            return self._spool.status(Folder.DELAY, name)
        except OSError:
            return None

    def _count_corrupt(self) -> int:
        try:
            return len(os.listdir(self._spool.path(Folder.CORRUPT, "")))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return 0
