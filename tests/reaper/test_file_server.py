"""A reaper beside a file server, whose clock gives the files their times."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mq.config import ReaperConfig
from mq_reaper.reaper import Reaper
from tests.support.faults import WatchedFiles
from tests.support.messages import SECOND_NS, names_in, write_message

SetClock = Callable[[int], None]

_HOUR_SECONDS = 3600


@pytest.fixture
def removed(removed: Path) -> Path:
    for queue in ("orders", "orders.fifo"):
        write_message(removed / f"{queue}:1")
    return removed


@pytest.fixture
def files() -> WatchedFiles:
    made = WatchedFiles()
    made.is_of_network = True
    return made


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """Set this machine's clock so far ahead of the file server's."""
    true_ns = time.time_ns

    def set_ahead(seconds: int) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: true_ns() + seconds * SECOND_NS)

    return set_ahead


def _reap(removed: Path, files: WatchedFiles, keep_seconds: float) -> list[str]:
    with closing(Reaper(ReaperConfig(removed, keep_seconds), files)) as reaper:
        reaper.reap()
    return names_in(removed)


def test_a_clock_ahead_of_the_file_servers_takes_nothing_early(
    removed: Path, files: WatchedFiles, set_clock: SetClock
) -> None:
    set_clock(_HOUR_SECONDS)

    assert _reap(removed, files, keep_seconds=1000) == ["orders.fifo:1", "orders:1"]
    assert _reap(removed, files, keep_seconds=0) == ["orders.fifo:1"]


def test_a_clock_behind_the_file_servers_keeps_nothing_for_longer(
    removed: Path, files: WatchedFiles, set_clock: SetClock
) -> None:
    set_clock(-_HOUR_SECONDS)

    assert _reap(removed, files, keep_seconds=0) == ["orders.fifo:1"]


def test_a_reaper_that_may_not_ask_for_the_time_goes_by_its_own(
    removed: Path, files: WatchedFiles
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    files.before["stamp"] = refuse

    assert _reap(removed, files, keep_seconds=0) == ["orders.fifo:1"]
