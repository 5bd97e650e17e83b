"""`DueRenewals`: begins the renewals of leases when they are due. Most blocks end before that, and
need no thread of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from mq.client.forking import start_anew_in_children

_LINGER_SECONDS = 1.0
"""The thread ends when there was nothing to wait for during this time."""
_NO_THREAD_SECONDS = 1.0
"""A renewal for which the system has no thread is begun this time later."""


class DueRenewals:
    """The renewals of a process that are not due yet, and the thread that waits for them."""

    def __init__(self) -> None:
        self.start()
        start_anew_in_children(self)

    def start(self) -> None:
        """Forget all."""
        # A signal handler may come in between, so the lock lets its thread in again.
        self._changed = threading.Condition(threading.RLock())
        self._due: dict[object, tuple[float, Callable[[], object]]] = {}
        self._wakes_at = 0.0
        self._thread: threading.Thread | None = None

    def __contains__(self, renewal: object) -> bool:
        return renewal in self._due

    def add(self, renewal: object, begin: Callable[[], object], seconds: float) -> None:
        """Have a renewal begun in that many seconds. `begin` does not block, and raises
        RuntimeError if the system has no thread for it, as this does if it has none to wait."""
        due_at = time.monotonic() + seconds
        with self._changed:
            self._due[renewal] = due_at, begin
            if self._thread is None:
                self._begin_waiting()
            elif due_at < self._wakes_at:
                self._changed.notify_all()

    def discard(self, renewal: object) -> None:
        """Forget a renewal. Once this returns it has begun, or never begins."""
        with self._changed:
            self._due.pop(renewal, None)

    def _begin_waiting(self) -> None:
        self._thread = threading.Thread(target=self._wait, name="mq-renewals", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._thread = None  # If it runs all the same, it sees that and ends.
            raise

    def _wait(self) -> None:
        this = threading.current_thread()
        with self._changed:
            try:
                while self._thread is this:
                    if not self._changed.wait(self._begin_due()) and not self._due:
                        return
            finally:
                if self._thread is this:
                    self._thread = None

    def _begin_due(self) -> float:
        """Begin what is due. Returns for how many seconds there is nothing more to do."""
        now = time.monotonic()
        for renewal, (due_at, begin) in [*self._due.items()]:
            if due_at > now:
                continue
            try:
                begin()
            except (RuntimeError, MemoryError):
                self._due[renewal] = now + _NO_THREAD_SECONDS, begin
            else:
                del self._due[renewal]
        times = [due_at for due_at, _ in self._due.values()]
        self._wakes_at = min(times, default=now + _LINGER_SECONDS)
        return self._wakes_at - now


due_renewals = DueRenewals()
"""One thread waits for those of all clients."""
