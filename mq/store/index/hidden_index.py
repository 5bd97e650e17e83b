"""What is leased or delayed, for those who look at it: a cache of `delay`, in the order of
publication.

The first look at a queue lists `delay`, and file system events keep what it found up to date, so
that the next page costs no listing. Where events do not tell everything, `delay` is listed again
after a while. When nobody has looked for a while, all of it is dropped. No message is held up for
it.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

import structlog

from mq.ids import id_of_key
from mq.lifecycle import Folder, State
from mq.names import QueueName, parse_file_name
from mq.spool.queue.hidden import hidden_keys, list_hidden
from mq.spool.spool import Spool
from mq.spool.watch import Change, Watch
from mq.store.index.hidden_window import HiddenPage, HiddenWindow

log = structlog.get_logger(__name__)

MAX_KEYS = 1 << 20
"""One listing remembers this number of messages, about 100 bytes each."""

_LISTING_PAUSE_FACTOR = 20
"""A listing that took T, and that events do not keep up to date, is used for this many times T."""

MAX_WINDOWS = 8
_MAX_IN_ALL = 2 * MAX_KEYS

IDLE_SECONDS = 30.0
"""The listings are kept for this time after the last look."""


class _Reading:
    """A listing of `delay`, or a reading of seals, under way; and the messages that changed
    meanwhile."""

    def __init__(self, queue: QueueName) -> None:
        self.queue = queue
        self.changed: set[str] = set()
        self.has_missed_some = False


class HiddenIndex:
    """Used by workers, several at a time; blocking."""

    def __init__(self, spool: Spool) -> None:
        """Open nothing yet."""
        self._spool = spool
        self._lock = Lock()
        self._watch: Watch | None = None
        self._lacks_events = False
        """Whether the system had no events at the last listing, which is logged once."""
        self._inode = 0
        self._windows: list[HiddenWindow] = []
        self._readings: list[_Reading] = []
        self._last_look = 0.0

    def close(self) -> None:
        with self._lock:
            self._drop_all()

    def page(
        self, queue: QueueName, state: State, after: str, limit: int, read_to: str = ""
    ) -> HiddenPage | None:
        """Return the first `limit` messages in that state behind the key `after`, or None if `load`
        must list them first. The caller has read all seals up to the key `read_to`. Raises
        OSError."""
        with self._lock:
            self._last_look = time.monotonic()
            self._take_in()
            for window in self._windows:
                if window.queue == queue and window.knows_what_is_behind(after):
                    self._windows.remove(window)
                    self._windows.append(window)
                    return window.page(state, after, limit, read_to)
        return None

    def load(self, queue: QueueName, after: str) -> None:
        """List what is behind the key `after`: see `list_hidden`. Raises OSError."""
        started = time.monotonic()
        with self._reading(queue) as reading:
            listing = list_hidden(self._spool, queue, after, MAX_KEYS)
            window = HiddenWindow(queue, after, listing)
            seconds = time.monotonic() - started
            with self._lock:
                self._correct([window], queue, reading.changed)
                sees_all = self._watch is not None and not self._spool.files.is_of_network
                is_kept_up = sees_all and not reading.has_missed_some
                pause = float("inf") if is_kept_up else _LISTING_PAUSE_FACTOR * seconds
                window.good_until = time.monotonic() + pause
                self._windows.append(window)
                self._drop_oldest()

    def read(self, queue: QueueName, keys: Sequence[str]) -> None:
        """Learn the states of these messages. Raises OSError."""
        with self._reading(queue) as reading:
            read = list(hidden_keys(self._spool, queue, keys))
            with self._lock:
                if reading.has_missed_some:
                    return
                known = [each for each in read if each.key not in reading.changed]
                missing = set(keys) - {each.key for each in read} - reading.changed
                for window in self._windows_of(queue):
                    for hidden in known:
                        window.put(hidden)
                    for message_id in missing:
                        window.drop(message_id)

    def keep_up(self) -> bool:
        """Take in events before the kernel's queue of them overflows. If nobody has looked for
        IDLE_SECONDS, drop all and return False. Raises OSError."""
        with self._lock:
            if time.monotonic() - self._last_look > IDLE_SECONDS and not self._readings:
                self._drop_all()
                return False
            self._take_in()
            return True

    @contextmanager
    def _reading(self, queue: QueueName) -> Iterator[_Reading]:
        """Note what changes in the queue until the block ends. What happens from here on is an
        event, what was there is found in the block. What the block found is entered before it ends,
        or another look could take in an event between the two. Raises OSError."""
        with self._lock:
            self._take_in()
            if self._watch is None:
                self._start_watch()
            reading = _Reading(queue)
            self._readings.append(reading)
        try:
            yield reading
        finally:
            with self._lock:
                self._take_in_safely()
                self._readings.remove(reading)

    def _start_watch(self) -> None:
        folder_fd = self._spool.fd(Folder.DELAY)
        watch = None
        try:
            watch = Watch()
            watch.add("", f"/proc/self/fd/{folder_fd}/.", attributes=True)
        except OSError as error:
            if not self._lacks_events:
                log.warning("no file system events; listings only", error=str(error))
            self._lacks_events = True
            if watch is not None:
                watch.close()
            return
        self._lacks_events = False
        self._watch, self._inode = watch, os.fstat(folder_fd).st_ino

    def _take_in_safely(self) -> None:
        """Take in all events so far. An OSError is only logged: another error may be on its way."""
        try:
            self._take_in()
        except OSError as error:
            log.warning("looking at leased and delayed messages failed", error=str(error))

    def _take_in(self) -> None:
        """Take in all events so far. If that fails, all that was listed is dropped."""
        now = time.monotonic()
        self._windows = [each for each in self._windows if now < each.good_until]
        if self._watch is None:
            return
        changes: dict[QueueName, dict[str, Change]] = defaultdict(dict)
        is_same = os.fstat(self._spool.fd(Folder.DELAY)).st_ino == self._inode
        for _, change, names in self._watch.read_last():
            if change in (Change.OVERFLOW, Change.FOLDER_WENT):
                is_same = False
                continue
            for name in names:
                if (parsed := parse_file_name(name)) is not None:
                    changes[parsed[0]][parsed[1]] = change
        if not is_same:
            self._drop_all()
            return
        try:
            for queue, changed in changes.items():
                self._take_in_queue(queue, changed)
            self._drop_oldest()
        except OSError:
            self._drop_all()
            raise

    def _take_in_queue(self, queue: QueueName, changed: dict[str, Change]) -> None:
        for reading in self._readings:
            if reading.queue == queue:
                reading.changed.update(changed)
        windows = self._windows_of(queue)
        if not windows:
            return
        for message_id, change in changed.items():
            if change is Change.WENT:
                for window in windows:
                    window.drop(message_id)
        here = [each for each, change in changed.items() if change is not Change.WENT]
        self._correct(windows, queue, here)

    def _correct(
        self, windows: Sequence[HiddenWindow], queue: QueueName, message_ids: Iterable[str]
    ) -> None:
        """Read the states of these messages again."""
        missing = set(message_ids)
        for hidden in hidden_keys(self._spool, queue, list(missing)):
            missing.discard(id_of_key(hidden.key))
            for window in windows:
                window.put(hidden)
        for message_id in missing:
            for window in windows:
                window.drop(message_id)

    def _windows_of(self, queue: QueueName) -> list[HiddenWindow]:
        return [each for each in self._windows if each.queue == queue]

    def _drop_oldest(self) -> None:
        """Drop the listings that were looked at longest ago, until the others are few and small
        enough."""
        while len(self._windows) > MAX_WINDOWS or sum(map(len, self._windows)) > _MAX_IN_ALL:
            del self._windows[0]

    def _drop_all(self) -> None:
        self._windows.clear()
        for reading in self._readings:
            reading.has_missed_some = True
        if self._watch is not None:
            self._watch.close()
            self._watch = None
