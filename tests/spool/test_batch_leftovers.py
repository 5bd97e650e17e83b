"""Batches that a crash left in `new`: a sweep finishes sealed ones and gives up open ones."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.config import ReaperConfig
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.queue.queues import begin_deletion, finish_deletion
from mq.spool.sets import hold_set, make_set, members
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper, Swept
from mq_reaper.reaper import Reaper
from tests.support.faults import MortalFiles, WatchedFiles
from tests.support.fsck import Fsck
from tests.support.messages import names_in, seal_of, stamp, write_message, write_set

ORDERS = QueueName("orders")
OPEN, SEALED = ".orders:0123.open", ".orders:0123"


def ignore(name: str, why: str) -> None:
    """What stays is looked at on disk."""


def test_a_sweep_delivers_a_sealed_batch(spool: Spool, orders: Path) -> None:
    write_set(spool.root / "new" / SEALED, "1", "2")

    assert Sweeper(spool, ignore).sweep() == Swept(delivered=2, sets=1)

    assert names_in(orders) == ["1", "2"]
    assert os.listdir(spool.root / "new") == []


def test_a_sweep_gives_an_open_batch_to_the_reaper(spool: Spool, orders: Path) -> None:
    write_set(spool.root / "new" / OPEN, "1", "2")

    assert Sweeper(spool, ignore).sweep() == Swept(sets=1)

    assert names_in(orders) == os.listdir(spool.root / "new") == []
    Reaper(ReaperConfig(spool.root / "remove"), WatchedFiles()).reap()
    assert names_in(spool.root / "remove") == []


def test_what_is_in_a_batch_and_is_not_a_message_is_reported_and_no_progress(
    spool: Spool, orders: Path
) -> None:
    write_set(spool.root / "new" / SEALED, "1")
    (spool.root / "new" / SEALED / "notes").write_text("a person's")
    reported: list[tuple[str, str]] = []
    sweeper = Sweeper(spool, lambda *left: reported.append(left))

    assert sweeper.sweep() == Swept(delivered=1)
    assert sweeper.sweep() == Swept()

    assert names_in(orders) == ["1"]
    assert {name for name, _ in reported} == {f"new/{SEALED}"}


@pytest.mark.parametrize("name", [OPEN, SEALED])
def test_a_batch_whose_publisher_lives_is_let_alone(spool: Spool, name: str) -> None:
    write_set(spool.root / "new" / name, "1")
    fd = hold_set(spool, Folder.NEW, name)
    assert isinstance(fd, int)

    assert Sweeper(spool, ignore).sweep() == Swept()

    assert members(spool, Folder.NEW, name) == ["orders:1"]
    spool.files.close(fd)


def test_damage_costs_one_member_of_a_batch(spool: Spool, orders: Path) -> None:
    folder = write_set(spool.root / "new" / SEALED, "1", "2", "3")
    (folder / "orders:2").write_bytes(b"torn")

    assert Sweeper(spool, ignore).sweep() == Swept(delivered=2, corrupt=1, sets=1)

    assert names_in(orders) == ["1", "3"]
    assert (spool.root / "corrupt" / "orders:2").read_bytes() == b"torn"


@pytest.mark.parametrize("code", [errno.EACCES, errno.EUCLEAN, errno.EIO])
def test_a_member_of_a_batch_that_cannot_be_opened_keeps_no_other_from_the_queue(
    spool: Spool, files: WatchedFiles, orders: Path, code: int
) -> None:
    write_set(spool.root / "new" / SEALED, "1", "2", "3")
    reported: list[tuple[str, str]] = []

    def fail(_: int, name: str) -> None:
        if name.endswith("orders:2"):
            raise OSError(code, os.strerror(code), name)

    files.before["open_message"] = fail

    swept = Sweeper(spool, lambda *left: reported.append(left)).sweep()

    assert swept == Swept(delivered=3, sets=1)
    assert names_in(orders) == ["1", "2", "3"]
    assert reported == [(f"new/{SEALED}/orders:2", os.strerror(code))]


def test_an_error_of_the_disk_in_a_batch_brings_the_next_sweep_soon(
    spool: Spool, files: WatchedFiles, orders: Path
) -> None:
    write_set(spool.root / "new" / SEALED, "1", "2")
    reported: list[tuple[str, str]] = []
    sweeper = Sweeper(spool, lambda *left: reported.append(left))
    files.fail("rename")

    assert sweeper.sweep() == Swept(delivered=1)

    assert sweeper.was_hindered
    assert reported == [(f"new/{SEALED}/orders:1", os.strerror(errno.EIO))]
    assert sweeper.sweep() == Swept(delivered=1, sets=1)
    assert not sweeper.was_hindered


def test_a_batch_without_its_queue_waits_for_it_and_is_reported_once(spool: Spool) -> None:
    reports: list[str] = []
    sweeper = Sweeper(spool, lambda name, why: reports.append(f"{name}: {why}"))
    write_set(spool.root / "new" / ".late:1")
    write_message(spool.root / "new" / ".late:1" / "late:1")

    assert [sweeper.sweep(), sweeper.sweep()] == [Swept(), Swept()]
    assert reports == ["new/.late:1/late:1: there is no queue late"]

    (spool.root / "queues" / "late").mkdir()
    assert sweeper.sweep() == Swept(delivered=1, sets=1)


@pytest.mark.parametrize("calls", range(8))
def test_a_sweep_that_dies_anywhere_is_finished_by_the_next(
    open_spool: Callable[[WatchedFiles], Spool], root: Path, calls: int
) -> None:
    mortal = MortalFiles()
    spool = open_spool(mortal)
    (root / "queues" / "orders").mkdir()
    write_set(root / "new" / SEALED, "1", "2", "3")
    stamp(root / "new" / SEALED / "orders:3", 1000)
    write_set(root / "new" / ".orders:1.open", "4")
    mortal.calls_left = calls

    try:
        Sweeper(spool, ignore).sweep()
    except OSError:
        pass
    mortal.calls_left = None
    Sweeper(spool, ignore).sweep()

    assert names_in(root / "queues" / "orders") == ["1", "2"]
    assert names_in(root / "delay") == ["orders:3"]
    assert os.listdir(root / "new") == []


def test_a_leftover_that_was_published_with_a_delay_goes_to_delay(
    spool: Spool, orders: Path
) -> None:
    new = spool.root / "new"
    for each, due_in_seconds in (("1", 1000.0), ("2", -1000.0), ("3", None)):
        write_message(new / f"orders:{each}", seal=seal_of(b"body"), due_in_seconds=due_in_seconds)

    assert Sweeper(spool, ignore).sweep() == Swept(delivered=3)

    assert names_in(spool.root / "delay") == ["orders:1"]
    assert names_in(orders) == ["2", "3"]


def test_a_delayed_leftover_without_its_queue_stays(spool: Spool) -> None:
    write_message(spool.root / "new" / "gone:1", seal=seal_of(b"body"), due_in_seconds=1000)

    assert Sweeper(spool, ignore).sweep() == Swept()

    assert names_in(spool.root / "new") == ["gone:1"]


@pytest.mark.parametrize("name", [OPEN, SEALED])
def test_deleting_a_queue_takes_its_batches_along(spool: Spool, name: str) -> None:
    write_set(spool.root / "new" / name, "1")
    write_set(spool.root / "new" / ".orders2:1.open")

    begin_deletion(spool, ORDERS)
    finish_deletion(spool, ORDERS)

    assert os.listdir(spool.root / "new") == [".orders2:1.open"]
    assert len(names_in(spool.root / "remove")) == 2
    assert not (spool.root / "new" / OPEN).exists()


def test_fsck_finishes_what_a_batch_left(spool: Spool, orders: Path) -> None:
    write_set(spool.root / "new" / SEALED, "1", "2")

    Fsck(spool).assert_mends(
        "batch", f"new/{SEALED}", "published, not delivered", "delivered 2 messages"
    )

    assert names_in(orders) == ["1", "2"]


def test_fsck_gives_an_open_batch_to_the_reaper(spool: Spool) -> None:
    write_set(spool.root / "new" / OPEN, "1")

    Fsck(spool).assert_mends("batch", f"new/{OPEN}", "before it was published", "moved to remove")


def test_fsck_finds_no_fault_with_a_batch_under_way(spool: Spool) -> None:
    fd = make_set(spool, Folder.NEW, OPEN)
    assert isinstance(fd, int)

    assert Fsck(spool).mend() == []

    spool.files.close(fd)
