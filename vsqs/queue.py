"""Queue: one queue in one folder, shared with any number of threads and processes."""

from __future__ import annotations

import errno
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

from mq.disk.files import Files
from vsqs import protocol, visibility
from vsqs.checks import Data, bytes_in, check_capacity, check_seconds, text_of
from vsqs.folder import FolderDropped, QueueFolder
from vsqs.foreign import MAX_BODY_BYTES
from vsqs.names import UNITS_PER_SECOND, Name, parse_id
from vsqs.opening import make_folders, refuse_planted_links
from vsqs.shared import FolderClosed, SharedFolder


class QueueException(Exception):
    """A queue cannot do what it was asked."""


class QueueFullException(QueueException):
    """Raised by `publish` when the queue stayed at its capacity."""


class Queue:
    """The queue in the folder `path`, which is made if it is missing.

    Messages are ordered by the time they were published. Any number of threads and processes may
    use it; a child made by fork goes on with the same object. Every method may raise OSError; the
    next call then opens the folder again.

    `capacity` is how many messages, ready and consumed, it holds before `publish` waits; None means
    no limit. `unit` is "ms", as the protocol says, or "us", as the released vsqs 0.3 counts; None
    is the unit that the folder has, and "ms" in a new one. With `sync=False` nothing is forced to
    stable media: a power cut may then lose or tear messages, and bring deleted ones back; a crash
    of processes alone does not.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        capacity: int | None = None,
        *,
        unit: str | None = None,
        sync: bool = True,
        files: Files | None = None,
        clock_ns: Callable[[], int] | None = None,
    ) -> None:
        if unit is not None and unit not in UNITS_PER_SECOND:
            raise ValueError(f"unit {unit!r}: choose one of {', '.join(UNITS_PER_SECOND)}")
        text = text_of(path)
        if not text:
            raise FileNotFoundError(errno.ENOENT, "the path of a queue is empty", path)
        check_capacity(capacity)
        self.path = path
        self.capacity = capacity
        self._sync = sync
        open_files = files or Files()
        absolute = os.path.abspath(text)
        refuse_planted_links(absolute)
        make_folders(open_files, absolute, sync)
        self._shared = SharedFolder(
            lambda lock: QueueFolder(absolute, unit, open_files, clock_ns or _now_ns, lock)
        )
        with self._in_folder():
            pass  # What is wrong with the folder is raised now, and not by the first call.

    def publish(self, data: Data, timeout: float | None = None) -> str:
        """Put a message of up to MAX_BODY_BYTES into the queue, and return its id. Raises
        QueueException if it is longer.

        On return it survives a power cut. A crash before that leaves at most a file `T.new`, which
        is swept when it is old. While the queue is at its capacity this waits, up to `timeout`
        seconds unless that is None, and then raises QueueFullException.
        """
        deadline = _deadline(timeout)
        body = bytes_in(data)
        if body.nbytes > MAX_BODY_BYTES:
            raise QueueException(
                f"a message of {body.nbytes} bytes: at most {MAX_BODY_BYTES} are accepted"
            )
        while True:
            with suppress(FolderDropped), self._in_folder() as folder:
                if not self._wait_for_room(folder, deadline):
                    break
                new = self._write(folder, body)
                with self._shared.lock:
                    published = protocol.finish(folder, new, self.capacity)
                if isinstance(published, Name):
                    self._sync_published(folder, published)
                    return str(published.time)
        raise QueueFullException(
            f"queue {self.path} is at its capacity {self.capacity}; delete messages, or wait longer"
        )

    def receive(
        self, visibility_timeout: float = 10, timeout: float | None = None
    ) -> tuple[str, bytes] | tuple[None, None]:
        """Take the oldest message, and return its id and its body.

        It is hidden from all others for `visibility_timeout` seconds. If it is not deleted by then,
        it returns in its old place. This waits for a message, up to `timeout` seconds unless that
        is None, and then returns (None, None). That the message is taken survives a power cut.
        """
        check_seconds("visibility_timeout", visibility_timeout)
        if not 0 <= visibility_timeout < math.inf:
            raise ValueError(f"visibility_timeout {visibility_timeout}: seconds, not below 0")
        deadline = _deadline(timeout)
        while True:
            with suppress(FolderDropped), self._in_folder() as folder:
                taken = self._wait_for_message(folder, visibility_timeout, deadline)
                if taken is None:
                    return None, None
                try:
                    body = self._read_hidden(folder, taken, visibility_timeout)
                finally:
                    folder.files.close(taken.fd)
                if body is not None:
                    return str(taken.name.time), body

    def delete(self, m_id: str | int) -> bool:
        """Delete a message for good, whatever its state. Returns True if it existed. On return it
        is gone, even after a power cut."""
        created = parse_id(str(m_id))
        if created is None:
            return False
        with self._in_folder() as folder:
            with self._shared.lock:
                found = protocol.delete(folder, created)
            self._make_durable(folder)
            return found

    def messages(self) -> Iterator[tuple[str, bytes]]:
        """Look at the ready messages, oldest first, and change nothing."""
        with self._in_folder() as folder, self._shared.lock:
            folder.refresh()
            names = folder.index.ready_names()
        # Nothing is held open between two messages, so a child made by fork may go on with this.
        for name in names:
            with self._in_folder() as folder:
                body = protocol.look_at(folder, name)
            if body is not None:
                yield str(name.time), body

    def size(self) -> int:
        """Return how many messages the queue has, ready and consumed ones."""
        with self._in_folder() as folder, self._shared.lock:
            folder.refresh()
            folder.rescan()
            return folder.index.size

    def close(self) -> None:
        """Close the queue. Threads that wait in `publish` or `receive` end with a
        QueueException."""
        self._shared.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_shared"):
            self._shared.abandon()

    @contextmanager
    def _in_folder(self) -> Iterator[QueueFolder]:
        try:
            with self._shared.entered() as folder:
                yield folder
        except FolderClosed:
            raise QueueException(f"queue {self.path} is closed") from None

    def _wait_for_room(self, folder: QueueFolder, deadline: float) -> bool:
        """Wait until the queue is below its capacity. Returns False at the deadline."""
        with self._shared.lock:
            folder.refresh()
            while self.capacity is not None and folder.index.size >= self.capacity:
                if not folder.rescan():
                    seconds = deadline - time.monotonic()
                    if seconds <= 0:
                        return False
                    folder.wait(seconds)
                folder.refresh()
        return True

    def _write(self, folder: QueueFolder, body: memoryview) -> protocol.NewFile:
        """Write a message, whole and synced, under a name that no receiver takes."""
        with self._shared.lock:
            folder.require_at_path()
            new = protocol.begin(folder)
        try:
            try:
                folder.files.write(new.fd, body)
                if self._sync:
                    folder.files.sync(new.fd)
            finally:
                folder.files.close(new.fd)
        except BaseException:
            with self._shared.lock, suppress(OSError):
                protocol.discard(folder, new.name)
            raise
        return new

    def _sync_published(self, folder: QueueFolder, name: Name) -> None:
        """Sync a published message. If that fails, take the message back unless it was received
        already: it was not promised."""
        try:
            self._make_durable(folder)
        except OSError:
            with self._shared.lock, suppress(OSError):
                protocol.discard(folder, name)
            raise

    def _wait_for_message(
        self, folder: QueueFolder, visibility_seconds: float, deadline: float
    ) -> protocol.TakenMessage | None:
        with self._shared.lock:
            while True:
                taken = protocol.take(folder, visibility_seconds)
                if taken is not None:
                    return taken
                if folder.rescan():
                    continue
                seconds = deadline - time.monotonic()
                if seconds <= 0:
                    return None
                expiry = visibility.seconds_to_expiry(folder)
                folder.wait(seconds if expiry is None else min(seconds, max(expiry, 0.001)))

    def _read_hidden(
        self, folder: QueueFolder, taken: protocol.TakenMessage, visibility_seconds: float
    ) -> bytes | None:
        """Sync and read a message that is still hidden on return. If that took longer than its
        visibility timeout, it is hidden again for that time. Returns None if another receiver may
        have it by now."""
        name, started = taken.name, folder.now()
        while True:
            self._make_durable(folder)
            body = protocol.read(folder, taken.fd)
            with self._shared.lock:
                if not visibility_seconds or not visibility.is_over(folder, name):
                    return body
                spent = max(folder.now() - started, 1)
                units = spent + round(visibility_seconds * folder.units_per_second)
                hidden = visibility.hide_anew(folder, name, taken.fd, units)
            if hidden is None:
                return None
            name = hidden

    def _make_durable(self, folder: QueueFolder) -> None:
        if self._sync:
            folder.sync()


class QueueManager:
    """Makes the queues below one folder, as the released vsqs 0.3 does: they count in microseconds.
    Close each of them by itself."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path

    def get_queue(self, name: str, capacity: int | None = None) -> Queue:
        return Queue(os.path.join(self.path, name), capacity, unit="us")

    def close(self) -> None:
        """Do nothing: a manager has nothing open."""


def micros() -> int:
    """Return the time in µs since 1970. A test of a program may put another function in its place,
    as with the original vsqs."""
    return time.time_ns() // 1000


def _now_ns() -> int:
    return micros() * 1000


def _deadline(timeout: float | None) -> float:
    if timeout is None:
        return math.inf
    check_seconds("timeout", timeout)
    return time.monotonic() + timeout
