"""The mover as a process: driven by events, killed at any moment, overrun with events."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.support.messages import names_in, stamp, write_message
from tests.support.processes import Process, wait_until

StartMover = Callable[..., Process]


@pytest.fixture
def delay(root: Path, start_mover: StartMover) -> Path:
    return root / "delay"


@pytest.fixture
def orders(root: Path, start_mover: StartMover) -> Path:
    folder = root / "queues" / "orders"
    folder.mkdir()
    return folder


@pytest.fixture
def mover(start_mover: StartMover, delay: Path, orders: Path) -> Process:
    """A mover that has scanned: from here on events alone tell it of what comes for 30 s."""
    started = start_mover()
    wait_until(lambda: "event=configuration" in started.log())
    _wait_for_a_probe(delay, orders)
    return started


def _wait_for_a_probe(delay: Path, orders: Path) -> None:
    """The mover knows of everything that is in `delay` when this returns."""
    _lease(delay, "probe", 0.001)
    wait_until((orders / "probe").exists)
    (orders / "probe").unlink()


def _lease(delay: Path, message_id: str, due_in_seconds: float) -> Path:
    aside = write_message(delay.parent / "aside", due_in_seconds=due_in_seconds)
    return aside.rename(delay / f"orders:{message_id}")


def test_what_arrives_is_moved_when_it_is_due(mover: Process, delay: Path, orders: Path) -> None:
    _lease(delay, "2", 0.2)
    _lease(delay, "1", 0.1)
    _lease(delay, "never", 1000)

    wait_until(lambda: names_in(orders) == ["1", "2"])

    assert names_in(delay) == ["orders:never"]


def test_shortened_stamp_moves_a_message_earlier(mover: Process, delay: Path, orders: Path) -> None:
    leased = _lease(delay, "1", 1000)
    _lease(delay, "next", 0.001)
    wait_until(lambda: names_in(orders) == ["next"])

    stamp(leased, 0.05)

    wait_until(lambda: names_in(orders) == ["1", "next"])


def test_prolonged_stamp_keeps_a_message_back(mover: Process, delay: Path, orders: Path) -> None:
    prolonged, due_ns = _prolonged_in_time(delay, orders)
    wait_until(lambda: time.time_ns() > due_ns)

    _wait_for_a_probe(delay, orders)

    assert prolonged.exists()


def _prolonged_in_time(delay: Path, orders: Path) -> tuple[Path, int]:
    """A message that the mover knew of before its stamp was prolonged, and when it was due at
    first. On a busy machine one may be due too early for that, and the next has more time."""
    for due_in_seconds in (0.2, 1, 5, 25):
        leased = _lease(delay, f"prolonged-{due_in_seconds}", due_in_seconds)
        due_ns = leased.stat().st_mtime_ns
        _wait_for_a_probe(delay, orders)
        with suppress(FileNotFoundError):
            stamp(leased, 1000)
            if time.time_ns() < due_ns:
                return leased, due_ns
    raise AssertionError("too busy")


def test_messages_are_moved_though_events_were_lost(
    mover: Process, delay: Path, orders: Path
) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    mover.popen.send_signal(signal.SIGSTOP)
    restless = _lease(delay, "restless", 1000)
    for number in range(limit // 2 + 2):
        restless = restless.rename(delay / f"orders:restless-{number % 2}")
    _lease(delay, "1", 0.001)
    mover.popen.send_signal(signal.SIGCONT)

    wait_until(lambda: names_in(orders) == ["1"])

    assert "file system events were lost" in mover.log()


def test_killed_mover_strands_nothing(start_mover: StartMover, delay: Path, orders: Path) -> None:
    expected = sorted(str(number) for number in range(500))
    for number in expected:
        _lease(delay, number, 0.001)

    def has_moved_more_than(count: int) -> bool:
        return len(names_in(orders)) > count or not names_in(delay)

    for _ in range(3):
        mover = start_mover()
        wait_until(partial(has_moved_more_than, len(names_in(orders))))
        mover.kill()
        assert len(names_in(orders)) + len(names_in(delay)) == 500

    start_mover()
    wait_until(lambda: names_in(orders) == expected)


def test_two_movers_move_each_message_once(
    start_mover: StartMover, delay: Path, orders: Path
) -> None:
    movers = [start_mover() for _ in range(2)]
    expected = sorted(str(number) for number in range(300))
    for number in expected:
        _lease(delay, number, 0.01)

    wait_until(lambda: names_in(orders) == expected)

    assert names_in(delay) == []
    assert not any("left where it is" in mover.log() for mover in movers)


def test_mover_stops_at_once_when_asked(mover: Process) -> None:
    assert mover.stop() == 0
