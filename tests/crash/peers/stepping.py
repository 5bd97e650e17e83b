"""Actors that take turns at each file call, and a time that passes only when it is told to."""

from __future__ import annotations

import errno
import functools
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import mq.spool.queue.listing
import mq.spool.queue.purging
import mq.spool.queue.settings_file
import mq.store.queue.expiry
import mq_mover.mover
from mq.disk.files import Files
from mq.spool.watch import Watch
from tests.crash.enumeration.clock import StoppedClock
from tests.support.faults import CHANGES, SYNCS

TO_THE_END = 1 << 30
"""More calls than anybody makes."""

MOST_SECONDS = 60

_STEPS = CHANGES | SYNCS | {
    "open_unnamed", "open_message", "open_to_look", "open_folder", "open_to_lock", "attribute",
    "lock", "lock_shared", "lock_byte", "status_of", "exists", "close",
}  # fmt: skip

_IMPATIENT = (
    "FOLDER_LOCK_SECONDS", "BUSY_WAIT_SECONDS", "OWN_ID_WAIT_SECONDS", "PURGE_LOCK_SECONDS",
    "LEAST_TRIES",
)  # fmt: skip
"""How long an actor waits for others, which stand still until it has given up."""


class SteppedFiles(Files):
    """Files whose user, a thread, stops before a call when its steps are used up. Once `is_dead`,
    nothing of what it does reaches the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.is_dead = False
        self.left = TO_THE_END
        self.user: threading.Thread | None = None
        self.stop: Callable[[], None] = lambda: None

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return functools.partial(self._step, name, found) if name in _STEPS else found

    def _step(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        if threading.current_thread() is self.user:  # and not one that collects garbage
            if self.left == 0:
                self.stop()
            self.left -= 1
        if self.is_dead and name in SYNCS:
            return None
        if self.is_dead and name in CHANGES:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return call(*arguments)


class SteppedActor:
    """Does one piece of work at a time, in a thread of its own. All others wait for it meanwhile,
    until it is done or has used up its calls."""

    def __init__(self) -> None:
        self.files = SteppedFiles()
        self.files.stop = self._stop
        self.is_at_work = False
        self.outcome: Any = None
        self._stands, self._may_go_on = threading.Semaphore(0), threading.Semaphore(0)

    def begin(self, work: Callable[[], object], calls: int) -> None:
        """Errors are the outcome too."""
        assert not self.is_at_work
        self.is_at_work, self.files.left = True, calls
        self.files.user = threading.Thread(target=self._work, args=(work,), daemon=True)
        self.files.user.start()
        assert self._stands.acquire(timeout=MOST_SECONDS), "an actor waits for another one"

    def go_on(self, calls: int) -> None:
        self.files.left = calls
        self._may_go_on.release()
        assert self._stands.acquire(timeout=MOST_SECONDS), "an actor waits for another one"

    def _work(self, work: Callable[[], object]) -> None:
        try:
            self.outcome = work()
        except BaseException as error:
            self.outcome = error
        self.is_at_work, self.files.left = False, TO_THE_END
        self._stands.release()

    def _stop(self) -> None:
        self._stands.release()
        self._may_go_on.acquire()


def _no_events() -> None:
    raise OSError(errno.EMFILE, "one pass of a mover scans, and needs no events")


def _close_later(close: Callable[[Watch], None]) -> Callable[[Watch], None]:
    """The kernel takes long to close a watch, and nobody here waits for it."""
    return lambda watch: threading.Thread(target=close, args=(watch,)).start()


@contextmanager
def stepped_time(clock: StoppedClock) -> Iterator[None]:
    """Within it the time of all modules is the clock's, nobody waits for a lock, and a queue of
    three messages is a long one. The file system's clock agrees with the clock that messages are
    old."""
    shown = SimpleNamespace(
        time_ns=clock,
        monotonic=lambda: clock.now_ns / 1e9,
        sleep=clock.pass_seconds,
        perf_counter=time.perf_counter,
        thread_time=time.thread_time,
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith(("mq.", "mq_mover.", "mq_reaper.")):
                if getattr(module, "time", None) is time:
                    patch.setattr(module, "time", shown)
                for constant in _IMPATIENT:
                    if hasattr(module, constant):
                        patch.setattr(module, constant, -1.0)
        for module in (mq.spool.queue.listing, mq.spool.queue.settings_file):
            patch.setattr(module, "may_stay", lambda *_: True)
        patch.setattr(mq.spool.queue.purging, "LONG_QUEUE", 3)
        patch.setattr(mq_mover.mover, "Watch", _no_events)
        patch.setattr(Watch, "close", _close_later(Watch.close))
        patch.setattr(mq.store.queue.expiry, "file_system_ns", lambda *_: clock())
        gc.disable()  # Collecting garbage closes files, in whatever thread that comes to it.
        try:
            yield
        finally:
            gc.enable()
