"""Sets: filled open, sealed by one rename, rolled forward from wherever that stopped."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.disk.calls import CHAINS_AT_ONCE
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.folders import Spool
from mq.spool.message.held import Lost
from mq.spool.sets import (
    by_stamp,
    hold_set,
    make_set,
    members,
    new_batch_name,
    parse_batch_name,
    roll_forward,
    seal_set,
    to_queue,
)
from mq.spool.sweep import Sweeper
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in, stamp, write_message, write_set

ORDERS = QueueName("orders")
OPEN, SEALED = ".orders:0123.open", ".orders:0123"


def test_a_sealed_set_is_rolled_forward_whole(spool: Spool, orders: Path) -> None:
    write_set(spool.root / "new" / SEALED, "1", "2", "3")

    rolled = roll_forward(spool, Folder.NEW, SEALED, by_stamp(time.time_ns()))

    assert rolled.ready == [("orders", "1"), ("orders", "2"), ("orders", "3")]
    assert rolled.left == {}
    assert names_in(orders) == ["1", "2", "3"]
    assert os.listdir(spool.root / "new") == []


def test_a_member_with_a_due_time_ahead_goes_to_delay(spool: Spool, orders: Path) -> None:
    folder = write_set(spool.root / "new" / SEALED, "1", "2", "3")
    stamp(folder / "orders:2", 1000)
    due_ns = (folder / "orders:2").stat().st_mtime_ns
    stamp(folder / "orders:3", -1000)

    roll_forward(spool, Folder.NEW, SEALED, by_stamp(time.time_ns()))

    assert names_in(orders) == ["1", "3"]
    delayed = (spool.root / "delay" / "orders:2").stat()
    assert delayed.st_mtime_ns == due_ns > delayed.st_ctime_ns


def test_a_claim_goes_back_to_its_queue_whatever_its_mtime(spool: Spool, orders: Path) -> None:
    stamp(write_set(spool.root / "new" / SEALED, "1") / "orders:1", 1000)

    roll_forward(spool, Folder.NEW, SEALED, to_queue)

    assert names_in(orders) == ["1"]


def test_members_in_folders_of_a_set_are_rolled_forward_too(spool: Spool, orders: Path) -> None:
    folder = write_set(spool.root / "new" / SEALED, "2")
    (folder / "0").mkdir()
    write_message(folder / "0" / "orders:1")

    assert members(spool, Folder.NEW, SEALED) == ["0/orders:1", "orders:2"]
    roll_forward(spool, Folder.NEW, SEALED, to_queue)

    assert names_in(orders) == ["1", "2"]
    assert not folder.exists()


def test_a_member_that_has_no_place_stays_and_nothing_is_replaced(
    spool: Spool, orders: Path
) -> None:
    folder = write_set(spool.root / "new" / SEALED, "1", "2")
    write_message(folder / "gone:1")
    stamp(write_message(folder / "gone:2"), 1000)
    (folder / "orders:link").symlink_to("nowhere")
    write_message(orders / "1", b"other")

    rolled = roll_forward(spool, Folder.NEW, SEALED, by_stamp(time.time_ns()))

    assert sorted(rolled.left) == ["gone:1", "gone:2", "orders:1", "orders:link"]
    assert names_in(folder) == sorted(rolled.left)
    assert (orders / "1").read_bytes() == b"other"
    assert names_in(orders) == ["1", "2"]


def test_a_queue_that_is_shut_keeps_its_own_members_alone_and_is_tried_once(
    spool: Spool, files: WatchedFiles, orders: Path
) -> None:
    (spool.root / "queues" / "bills").mkdir()
    ids = [f"{each:03}" for each in range(2 * CHAINS_AT_ONCE)]
    folder = write_set(spool.root / "new" / SEALED, *ids)
    for part in ("0", "1"):
        (folder / part).mkdir()
        write_message(folder / part / f"bills:{part}")
    tried = []

    def shut(_: int, name: str) -> None:
        if name == "bills":
            tried.append(name)
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)

    files.before["open_folder"] = shut

    rolled = roll_forward(spool, Folder.NEW, SEALED, to_queue)

    assert names_in(orders) == ids
    assert list(rolled.errors) == list(rolled.left) == ["0/bills:0", "1/bills:1"]
    assert len(tried) == 1
    with pytest.raises(PermissionError):
        roll_forward(spool, Folder.NEW, SEALED, to_queue)


def test_a_member_of_which_the_disk_does_not_say_what_it_is_stays_alone(
    spool: Spool, files: WatchedFiles, orders: Path
) -> None:
    write_set(spool.root / "new" / SEALED, "1", "2", "3")

    def fail(_: int, name: str) -> None:
        if name.endswith("orders:2"):
            raise OSError(errno.EUCLEAN, os.strerror(errno.EUCLEAN), name)

    files.before["status_of"] = fail

    rolled = roll_forward(spool, Folder.NEW, SEALED, to_queue)

    assert names_in(orders) == ["1", "3"]
    assert list(rolled.errors) == ["orders:2"]


def test_sealing_replaces_no_set(spool: Spool) -> None:
    write_set(spool.root / "new" / OPEN, "1")
    write_set(spool.root / "new" / SEALED, "2")

    with pytest.raises(FileExistsError):
        seal_set(spool, Folder.NEW, OPEN, SEALED)

    assert members(spool, Folder.NEW, SEALED) == ["orders:2"]


def test_the_lock_of_a_set_stays_with_it_when_it_is_sealed(
    spool: Spool, open_spool: Callable[[WatchedFiles], Spool]
) -> None:
    other = open_spool(WatchedFiles())
    fd = make_set(spool, Folder.NEW, OPEN)
    assert isinstance(fd, int)

    assert hold_set(other, Folder.NEW, OPEN) is Lost.BUSY
    seal_set(spool, Folder.NEW, OPEN, SEALED)
    assert hold_set(other, Folder.NEW, SEALED) is Lost.BUSY

    spool.files.close(fd)
    free = hold_set(other, Folder.NEW, SEALED)
    assert isinstance(free, int)
    other.files.close(free)


def test_a_set_that_a_sweep_saw_before_it_was_locked_is_not_ours(
    spool: Spool, files: WatchedFiles, open_spool: Callable[[WatchedFiles], Spool]
) -> None:
    sweeping = Sweeper(open_spool(WatchedFiles()), lambda *_: None)

    def sweep(*_: object) -> None:
        files.before.clear()
        sweeping.sweep()

    files.before["lock"] = sweep

    assert make_set(spool, Folder.NEW, OPEN) is Lost.BUSY
    assert os.listdir(spool.root / "new") == []


def test_a_name_that_is_no_folder_is_no_set(spool: Spool) -> None:
    write_message(spool.root / "new" / SEALED)

    assert hold_set(spool, Folder.NEW, SEALED) is Lost.FOREIGN
    assert hold_set(spool, Folder.NEW, ".orders:none") is Lost.GONE


def test_names_of_batches_are_told_from_uploads_and_probes() -> None:
    batch = new_batch_name(ORDERS)

    assert parse_batch_name(batch.sealed) == parse_batch_name(batch.open) == batch
    others = [".0123456789abcdef", ".probe-1-ab", "orders:1", ".:1", ".a b:1"]
    assert [parse_batch_name(name) for name in others] == [None] * 5
