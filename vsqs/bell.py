"""Bell: wakes the threads that wait for a change in one folder."""

from __future__ import annotations

import math
import os
import select
import threading

from mq.disk.files import Files


class Bell:
    """Wakes threads. Of the threads that wait, one polls the file system's events for all of them;
    a thread that learns of a change in another way rings. Call every method with `lock` held."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._rung = threading.Condition(lock)
        self._is_polled = False
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def close(self, files: Files) -> None:
        files.close(self._wake_fd)

    def ring(self) -> None:
        """Let all threads that wait look again."""
        self._rung.notify_all()
        if self._is_polled:
            os.eventfd_write(self._wake_fd, 1)

    def wait(self, events_fd: int | None, seconds: float) -> None:
        """Wait until it rings or `events_fd` can be read, this many seconds at most. The lock
        is free meanwhile."""
        if events_fd is None or self._is_polled:
            self._rung.wait(seconds)
            return
        self._is_polled = True
        try:
            # A signal's handler may raise as soon as this returns, and the caller holds the lock.
            self._lock.release()
            self._poll(events_fd, seconds)
        finally:
            self._lock.acquire()
            self._is_polled = False
            # The other threads look too, and one of them polls next.
            self._rung.notify_all()

    def _poll(self, events_fd: int, seconds: float) -> None:
        poll = select.poll()
        poll.register(events_fd, select.POLLIN)
        poll.register(self._wake_fd, select.POLLIN)
        for fd, _ in poll.poll(math.ceil(seconds * 1000)):
            if fd == self._wake_fd:
                os.eventfd_read(self._wake_fd)
