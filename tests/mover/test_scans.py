"""How soon the mover looks at every file again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mq.config import MoverConfig
from mq.spool.spool import Spool
from mq_mover.due_times import Due
from mq_mover.mover import Mover
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in, seal_of, write_message

RESCAN_SECONDS = 30.0


class SlowClock:
    """Stands still but for what takes long."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SlowClock:
    clock = SlowClock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


@pytest.fixture
def mover(spool: Spool, files: WatchedFiles) -> Iterator[Mover]:
    folders = spool.root / "delay", spool.root / "queues"
    with closing(Mover(MoverConfig(*folders, rescan_seconds=RESCAN_SECONDS), files)) as mover:
        yield mover


def test_what_is_due_by_the_thousand_puts_off_no_scan(
    spool: Spool, orders: Path, files: WatchedFiles, mover: Mover, clock: SlowClock
) -> None:
    """Where other machines work on the root, only a scan sees what they have hidden."""
    for name in ("orders:1", "orders:2"):
        write_message(spool.root / "delay" / name, seal=seal_of(b"body"))
    files.before["rename"] = lambda *_: clock.pass_seconds(100)

    mover.scan()

    assert names_in(orders) == ["1", "2"]
    assert mover._next_scan == clock.now + RESCAN_SECONDS


@pytest.mark.parametrize(("is_of_network", "pause_seconds"), [(False, 200 * 5), (True, 20 * 5)])
def test_a_look_that_takes_long_does_so_more_often_where_others_work_on_the_root(
    files: WatchedFiles,
    mover: Mover,
    clock: SlowClock,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_of_network: bool,
    pause_seconds: float,
) -> None:
    def look(*_: object) -> Iterator[list[Due]]:
        clock.pass_seconds(5)
        yield []

    monkeypatch.setattr("mq_mover.mover.due_times", look)
    monkeypatch.setattr(files, "is_of_network", is_of_network)

    mover.scan()

    assert mover._next_scan == clock.now + pause_seconds
