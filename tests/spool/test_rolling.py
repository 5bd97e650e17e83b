"""A sealed set is rolled forward from wherever that stopped."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from mq.disk.calls import CHAINS_AT_ONCE
from mq.lifecycle import Folder
from mq.spool.rolling import by_stamp, roll_forward, to_queue
from mq.spool.sets import members
from mq.spool.spool import Spool
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in, stamp, write_message, write_set

SEALED = ".orders:0123"


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
    """Its members are the first ones and the last."""
    (spool.root / "queues" / "returns").mkdir()
    ids = [f"{each:03}" for each in range(2 * CHAINS_AT_ONCE)]
    folder = write_set(spool.root / "new" / SEALED, *ids)
    write_message(folder / "returns:last")
    for part in ("0", "1"):
        (folder / part).mkdir()
        write_message(folder / part / f"returns:{part}")
    tried = []

    def shut(_: int, name: str) -> None:
        if name == "returns":
            tried.append(name)
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)

    files.before["open_folder"] = shut

    rolled = roll_forward(spool, Folder.NEW, SEALED, to_queue)

    assert names_in(orders) == ids
    left = ["0/returns:0", "1/returns:1", "returns:last"]
    assert list(rolled.errors) == list(rolled.left) == left
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
