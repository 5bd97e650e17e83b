"""Errors of the disk with the messages of one queue keep that queue's messages alone."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mq.config import MoverConfig
from mq.lifecycle import Folder
from mq.spool.spool import Spool
from mq_mover.mover import Mover
from mq_mover.resting import RestingQueues
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in, seal_of, write_message
from tests.support.processes import wait_until

MANY = [f"{each:03}" for each in range(100)]


class _BrokenQueue(WatchedFiles):
    """No message can be moved to or from the queue `bills` while it `is_broken`."""

    is_broken = True
    tries = 0

    def rename(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        if self.is_broken and source.startswith("bills:"):
            self.tries += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), source)
        super().rename(source_fd, source, target_fd, target)


@pytest.fixture
def broken() -> _BrokenQueue:
    return _BrokenQueue()


@pytest.fixture
def mover(spool: Spool, orders: Path, broken: _BrokenQueue) -> Iterator[Mover]:
    """All of a broken queue are due, and then one of another queue."""
    (spool.root / Folder.QUEUES / "bills").mkdir()
    delay = spool.root / Folder.DELAY
    for each in MANY:
        write_message(delay / f"bills:{each}", seal=seal_of(b"body", count=1))
    write_message(delay / "orders:1", seal=seal_of(b"body", count=1))
    config = MoverConfig(delay, spool.root / Folder.QUEUES, retry_seconds=0.05)
    with closing(Mover(config, broken)) as opened:
        yield opened


def test_a_queue_that_the_disk_refuses_keeps_no_message_of_another_queue(
    mover: Mover, orders: Path, broken: _BrokenQueue
) -> None:
    mover.scan()

    assert names_in(orders) == ["1"]
    assert 0 < broken.tries < len(MANY)
    assert mover.counts.lag_ns > 0


def test_all_messages_of_a_queue_return_once_the_disk_takes_them(
    mover: Mover, spool: Spool, broken: _BrokenQueue
) -> None:
    mover.scan()
    for _ in range(3):
        mover.move_due()
    broken.is_broken = False

    def are_moved() -> bool:
        mover.move_due()
        return names_in(spool.root / Folder.QUEUES / "bills") == MANY

    wait_until(are_moved)
    mover.move_due()
    assert mover.counts.lag_ns == 0


def _rest(queues: RestingQueues, queue: str) -> list[str]:
    """Let a queue rest, and put aside what else of it is due."""
    for each in range(8):
        assert not queues.put_aside(f"{queue}:{each}", "")
        queues.failed(f"{queue}:{each}")
    entries = [f"entry of {queue} {each}" for each in range(20)]
    assert all(queues.put_aside(f"{queue}:{each}", entry) for each, entry in enumerate(entries))
    return entries


def test_after_a_rest_a_few_are_tried_and_all_once_one_has_moved() -> None:
    queues = RestingQueues(rest_seconds=0.0)
    entries = _rest(queues, "bills")

    assert queues.wait_seconds() == 0.0
    assert queues.take_back() == entries[:8]
    assert not queues.put_aside("bills:1", "tried at once")
    queues.worked("bills:0")
    assert queues.wait_seconds() == 0.0
    assert queues.take_back() == entries[8:]
    assert queues.wait_seconds() is None


def test_a_scan_finds_anew_what_was_kept() -> None:
    queues = RestingQueues(rest_seconds=0.0)
    for queue in ("bills", "orders"):
        _rest(queues, queue)
    queues.worked("bills:0")

    queues.forget_entries()

    assert queues.wait_seconds() is None
    assert queues.take_back() == []


def test_a_message_that_moves_ends_the_count_of_errors() -> None:
    queues = RestingQueues(rest_seconds=1000.0)
    for each in range(7):
        queues.failed(f"bills:{each}")

    queues.worked("bills:7")
    queues.failed("bills:8")

    assert not queues.put_aside("bills:9", "entry")


def test_other_queues_do_not_rest_and_names_without_a_queue_rest_together() -> None:
    queues = RestingQueues(rest_seconds=1000.0)
    _rest(queues, "bills")
    for each in "abcdefgh":
        queues.failed(each)

    assert not queues.put_aside("orders:1", "entry")
    assert queues.put_aside("another", "entry")
    assert queues.take_back() == []
    assert (queues.wait_seconds() or 0) > 0
    queues.forget_entries()
    assert queues.wait_seconds() is None


def test_a_lease_that_was_cut_short_is_looked_at_again_after_an_error(
    spool: Spool, orders: Path
) -> None:
    """The mover expected its end much later."""
    files, delay = WatchedFiles(), spool.root / Folder.DELAY
    config = MoverConfig(delay, spool.root / Folder.QUEUES, retry_seconds=0.2)
    leased = write_message(delay / "orders:1", seal=seal_of(b"body", count=1), due_in_seconds=1000)
    with closing(Mover(config, files)) as mover:
        mover.scan()
        os.utime(leased)
        mover._wait()
        files.fail("open_message")

        def is_moved() -> bool:
            mover.move_due()
            return names_in(orders) == ["1"]

        wait_until(is_moved)
