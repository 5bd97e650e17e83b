"""The mover under a flood, and one that is stopped in the middle of its work."""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mq.config import MoverConfig
from mq.disk.files import Files
from mq_mover.mover import Mover
from tests.support.messages import names_in, stamp, write_message
from tests.support.processes import Process, start_mover, wait_until

QUEUED_EVENTS = Path("/proc/sys/fs/inotify/max_queued_events")
"""How many the kernel keeps for a process that does not read them (inotify(7))."""

SOME = 3000


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder, in memory if that is possible: tens of thousands of files are made here."""
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=in_memory) as name:
        for part in ("aside", "delay", "queues/orders"):
            (Path(name) / part).mkdir(parents=True)
        yield Path(name)


@pytest.fixture
def mover(folder: Path, tmp_path: Path, processes: list[Process]) -> Process:
    """A mover that has read its folder and waits for events."""
    processes.append(start_mover(folder, log=tmp_path / "mover.log"))
    stamp(write_message(folder / "delay" / "orders:probe"), 0.001)
    wait_until(lambda: names_in(folder / "queues" / "orders") == ["probe"])
    (folder / "queues" / "orders" / "probe").unlink()
    return processes[-1]


def test_flood_that_overflows_the_events_is_moved_whole(mover: Process, folder: Path) -> None:
    flood = 2 * int(QUEUED_EVENTS.read_text())
    for number in range(flood):
        os.close(os.open(folder / "aside" / f"orders:{number}", os.O_CREAT | os.O_WRONLY))
    mover.popen.send_signal(signal.SIGSTOP)
    for number in range(flood):
        os.rename(folder / "aside" / f"orders:{number}", folder / "delay" / f"orders:{number}")
    mover.popen.send_signal(signal.SIGCONT)

    # To list them all again and again would keep the mover from its work.
    wait_until(lambda: _is_empty(folder / "delay"), 60)

    assert "file system events were lost" in mover.log()
    assert set(names_in(folder / "queues" / "orders")) == {str(n) for n in range(flood)}


def test_stopped_mover_blocks_at_most_the_message_it_holds(mover: Process, folder: Path) -> None:
    delay, orders = folder / "delay", folder / "queues" / "orders"
    numbers, left = itertools.count(), 0
    while left <= 1:
        mover.popen.send_signal(signal.SIGSTOP)
        for number in itertools.islice(numbers, SOME):
            write_message(delay / f"orders:{number}")
        moved = len(names_in(orders))
        mover.popen.send_signal(signal.SIGCONT)
        wait_until(lambda: len(names_in(orders)) > moved)
        mover.popen.send_signal(signal.SIGSTOP)
        left = len(names_in(delay))

    other = Mover(MoverConfig(delay, folder / "queues"), Files())
    other.scan()
    other.move_due()
    blocked = len(names_in(delay))
    other.close()
    mover.popen.send_signal(signal.SIGCONT)
    wait_until(lambda: not names_in(delay))

    assert blocked <= 1
    assert len(names_in(orders)) == next(numbers)


def _is_empty(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None
