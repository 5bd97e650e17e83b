"""Time and chance, the same in every run.

The clock stands far ahead of the kernel's, so that a stamp is always later than the ctime of its
file, as on a real system at the moment of the rename.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType

import pytest

import mq.spool.queue.listing
import mq.store.index.ready_queues
import mq_mover.mover

SECOND_NS = 1_000_000_000
DAY_SECONDS = 86_400

START_NS = 2_200_000_000 * SECOND_NS
RESTART_NS = START_NS + DAY_SECONDS * SECOND_NS
"""When the system is started again after any cut."""

LATER_NS = START_NS + 20 * DAY_SECONDS * SECOND_NS
"""When every lease and every delay is over."""

SHORT_SECONDS = 1.0
"""A lease that is over at the restart."""

LONG_SECONDS = 10.0 * DAY_SECONDS
"""A lease that is not."""


_IMPATIENT = {
    "FOLDER_LOCK_SECONDS": 0.0,
    "BUSY_WAIT_SECONDS": 0.0,
    "OWN_ID_WAIT_SECONDS": 0.0005,
    "LEAST_TRIES": 1,
    "RELIST_PAUSE_FACTOR": 0,
}
"""Settings of `mq.config` and `mq.store.patience` as the modules see them that have them."""


class StoppedClock:
    """Goes on by a microsecond whenever it is asked."""

    def __init__(self) -> None:
        self.now_ns = START_NS

    def __call__(self) -> int:
        self.now_ns += 1_000
        return self.now_ns

    def pass_seconds(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND_NS)


def _no_events() -> None:
    raise OSError(errno.EMFILE, "no file system events in a recorded run")


class _Random(random.Random):
    """Any generator that is made starts the same."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)


class _Chance:
    """In place of the kernel's random bytes."""

    def __init__(self) -> None:
        self._count = itertools.count()

    def __call__(self, length: int) -> bytes:
        return hashlib.shake_256(b"%d" % next(self._count)).digest(length)


@cache
def _impatient_places(loaded: int) -> list[tuple[ModuleType, str]]:
    """Where each setting is that is made impatient. To look takes as long as a run does, so nobody
    looks again until another number of modules is `loaded`."""
    modules = [module for name, module in sys.modules.items() if name[:3] == "mq."]
    return [(module, name) for module in modules for name in _IMPATIENT if hasattr(module, name)]


@contextmanager
def determined(clock: StoppedClock) -> Iterator[None]:
    """Within it time is the clock's and chance repeats itself; no lock is waited for, and without
    file system events everybody lists folders, always."""
    chance = _Chance()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", clock)
        patch.setattr("os.urandom", chance)
        patch.setattr("secrets.token_hex", lambda length: chance(length).hex())
        patch.setattr(random, "Random", _Random)
        for module, name in _impatient_places(len(sys.modules)):
            patch.setattr(module, name, _IMPATIENT[name])
        patch.setattr(mq.store.index.ready_queues, "Watch", _no_events)
        patch.setattr(mq.spool.queue.listing, "may_stay", lambda *_: True)
        patch.setattr(mq_mover.mover, "Watch", _no_events)
        yield
