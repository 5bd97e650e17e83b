"""The mover, the reaper and the sweep live through every failing system call, and catch up."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from mq.config import MoverConfig, ReaperConfig
from mq.disk.files import Files
from mq.spool.root import open_root
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from mq_mover.mover import Mover
from mq_reaper.reaper import Reaper
from tests.crash.faults.kernel import SHORT_WRITE, Ended, Fault, Kernel
from tests.crash.faults.service import RELIEF_SECONDS, open_but_for_queues
from tests.support.messages import names_in, new_id, seal_of, write_message
from tests.support.processes import wait_until

_RETRY_SECONDS = 0.02


@pytest.fixture
def spool(root: Path) -> Iterator[Spool]:
    with closing(open_root(root, 0o700, Files())[0]) as spool:
        (root / "queues" / "orders").mkdir()
        yield spool


@pytest.fixture(autouse=True)
def _strikes_here(fault: Fault) -> None:
    if fault.code == SHORT_WRITE:
        pytest.skip("none of these writes")


def _mover(spool: Spool, kernel: Kernel, max_receives: int) -> Mover:
    source, destination = spool.root / "delay", spool.root / "queues"
    config = MoverConfig(
        source, destination, max_receives=max_receives, retry_seconds=_RETRY_SECONDS
    )
    return Mover(config, kernel.beneath(Files()))


def _put(folder: Path) -> str:
    """A message that was received once and is due; returns its id."""
    message_id = new_id()
    made = write_message(folder.parent / message_id, seal=seal_of(b"body", count=1))
    made.rename(folder / f"orders:{message_id}")
    return message_id


@contextmanager
def _at_work(kernel: Kernel, process: Mover | Reaper, folder: Path) -> Iterator[None]:
    """A mover or reaper in a thread, which is alive until the end."""

    def run() -> None:
        with suppress(Ended), closing(process):
            process.run()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
        assert thread.is_alive()
    finally:
        kernel.end(thread)
        _put(folder)
        thread.join(10)


def _is_done_after_relief(kernel: Kernel, fault: Fault | None, is_done: Callable[[], bool]) -> None:
    """Let a fault that lasts strike a few times; then the work is done after all."""
    strikes = 3 if fault is not None and fault.lasts else 1
    wait_until(lambda: len(kernel.struck) >= strikes or is_done())
    kernel.relieve()
    wait_until(is_done, RELIEF_SECONDS)


def test_mover_that_scans_moves_everything_after_relief(
    spool: Spool, kernel: Kernel, fault: Fault
) -> None:
    delay, queue, code = spool.root / "delay", spool.root / "queues" / "orders", fault.code

    def scan(fault: Fault | None, index: int) -> int:
        mover = _mover(spool, kernel, max_receives=0)
        message_id = _put(delay)
        kernel.arm(fault, index)
        with _at_work(kernel, mover, delay):
            _is_done_after_relief(kernel, fault, (queue / message_id).exists)
            return kernel.places(code)

    calls = scan(None, 0)
    descriptors = open_but_for_queues()
    for index in range(calls):
        scan(fault, index)
        assert open_but_for_queues() <= descriptors, index


def test_mover_that_waits_moves_everything_after_relief(
    spool: Spool, kernel: Kernel, fault: Fault
) -> None:
    """To the dead letters, whose queue it makes first."""
    delay, queue, code = spool.root / "delay", spool.root / "queues" / "orders.dead", fault.code

    def come(fault: Fault | None, index: int) -> int:
        kernel.arm(fault, index)
        message_id = _put(delay)
        _is_done_after_relief(kernel, fault, (queue / message_id).exists)
        (queue / message_id).unlink()
        queue.rmdir()
        return kernel.places(code)

    with _at_work(kernel, _mover(spool, kernel, max_receives=1), delay):
        wait_until(lambda: "listdir" in kernel.calls)
        calls = come(None, 0)
        descriptors = open_but_for_queues()
        for index in range(calls):
            come(fault, index)
            wait_until(lambda: open_but_for_queues() <= descriptors)


def test_reaper_reaps_everything_after_relief(spool: Spool, kernel: Kernel, fault: Fault) -> None:
    remove, code = spool.root / "remove", fault.code
    config = ReaperConfig(remove, rescan_seconds=_RETRY_SECONDS, retry_seconds=_RETRY_SECONDS)

    def reap(fault: Fault | None, index: int) -> int:
        reaper = Reaper(config, kernel.beneath(Files()))
        _put(remove)
        deleted = remove / f"returns:.{new_id()}"
        deleted.mkdir()
        write_message(deleted / new_id())
        kernel.arm(fault, index)
        with _at_work(kernel, reaper, remove):
            _is_done_after_relief(kernel, fault, lambda: os.listdir(remove) == [])
            return kernel.places(code)

    calls = reap(None, 0)
    descriptors = open_but_for_queues()
    for index in range(calls):
        reap(fault, index)
        assert open_but_for_queues() <= descriptors, index


def test_sweep_finishes_everything_after_relief(spool: Spool, kernel: Kernel, fault: Fault) -> None:
    root, code = spool.root, fault.code
    kernel.beneath(spool.files)
    sweeper = Sweeper(spool, print)

    def sweep(fault: Fault | None, index: int) -> int:
        whole, torn = _leave_what_crashes_leave(root)
        kernel.arm(fault, index)
        with suppress(OSError):
            sweeper.sweep()
        kernel.relieve()
        calls = kernel.places(code)
        sweeper.sweep()
        assert os.listdir(root / "new") == []
        assert names_in(root / "queues" / "orders") == [whole]
        assert names_in(root / "corrupt") == [f"orders:{torn}"]
        assert not list((root / "remove").glob("*:.deleting"))
        assert os.listdir(root / "delay") == []
        for folder in ("corrupt", "queues/orders"):
            for left in (root / folder).iterdir():
                left.unlink()
        return calls

    sweep(None, 0)
    calls = sweep(None, 0)
    descriptors = open_but_for_queues()
    for index in range(calls):
        sweep(fault, index)
        assert open_but_for_queues() <= descriptors, index


def _leave_what_crashes_leave(root: Path) -> tuple[str, str]:
    """A whole message and a torn one, an upload, and a queue that is half deleted. Returns the
    ids of the first two."""
    whole = _put(root / "new")
    torn = _put(root / "new")
    os.truncate(root / "new" / f"orders:{torn}", 2)
    (root / "new" / ".upload").touch()
    queue = f"returns-{time.time_ns()}"
    (root / "remove" / f"{queue}:.deleting").mkdir()
    write_message(root / "delay" / f"{queue}:{new_id()}", seal=seal_of(b"body", lease=7))
    return whole, torn
