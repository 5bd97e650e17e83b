"""Transactions on a disk that refuses a rename, and with messages that have no place: each message
comes to its queue, or goes where the table says, and none is taken for another one."""

from __future__ import annotations

import errno
import os

import pytest

from mq.lifecycle import Actor
from mq.names import MessageId, QueueName
from mq.spool.root import visit_root
from mq.spool.spark.jobs import Job
from mq.spool.spark.staging import Attempt, StagedMessage
from mq.spool.spark.transactions import commit
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from tests.support.faults import WatchedFiles, raising
from tests.support.messages import names_in, seal_of, write_message
from tests.support.spark_files import (
    Cut,
    HookedFiles,
    bodies,
    dies,
    make_again,
    stage,
    sweep,
)
from tests.support.stores import ORDERS


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_message_that_the_disk_keeps_from_its_queue_stays_for_the_next_roll(
    spool: Spool, files: HookedFiles, code: int
) -> None:
    winners = [stage(spool, "0-1", b"one"), stage(spool, "1-1", b"two", b"three")]
    is_first = iter([True])

    def fail_once() -> None:
        if next(is_first, False):
            raising(code)()

    files.before_delivery = fail_once

    with pytest.raises(OSError, match=os.strerror(code)):
        commit(Job(spool, "app"), 1, winners)

    assert sorted(bodies(spool.root)) == [b"three", b"two"]
    assert bodies(spool.root, "corrupt") == []
    sweep(spool.root)
    assert sorted(bodies(spool.root)) == [b"one", b"three", b"two"]
    assert not (spool.root / "spark/stage/app").exists()


def test_a_sweep_that_the_disk_keeps_from_a_message_says_so_and_comes_back(
    spool: Spool, files: HookedFiles
) -> None:
    winner = stage(spool, "0-1", b"one")
    files.before_delivery = raising(errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        commit(Job(spool, "app"), 1, [winner])
    reported: list[str] = []
    server = visit_root(spool.root, files, Actor.SERVER)
    sweeper = Sweeper(server, lambda name, _: reported.append(name))

    sweeper.sweep()

    server.close()
    assert reported == ["spark/stage/app/1"]
    assert bodies(spool.root, "corrupt") == []


@pytest.mark.parametrize(("there", "folder"), [(b"mine", "remove"), (b"another", "corrupt")])
def test_an_id_that_waits_in_delay_is_not_written_again(
    spool: Spool, there: bytes, folder: str
) -> None:
    path = spool.root / "delay/orders:a"
    write_message(path, there, seal=seal_of(there), due_in_seconds=3600)
    attempt = Attempt(Job(spool, "app"), 1, "0-1")
    attempt.add([StagedMessage(ORDERS, b"mine", MessageId("a"), delay_seconds=3600)])
    attempt.seal()

    commit(Job(spool, "app"), 1, ["0-1"])

    assert path.read_bytes() == there
    assert (spool.root / folder / "orders:a").read_bytes() == b"mine"


def test_what_was_committed_for_a_deleted_queue_is_not_in_the_one_made_again(
    spool: Spool, files: HookedFiles
) -> None:
    winner = stage(spool, "0-1", b"old")
    files.before_delivery = dies
    with pytest.raises(Cut):
        commit(Job(spool, "app"), 1, [winner])
    files.before_delivery = lambda: None
    make_again(spool.root / "queues/orders", spool.root / "spark/txn/app/1")

    sweep(spool.root)
    commit(Job(spool, "app"), 2, [stage(spool, "0-2", b"new", batch=2)])

    assert sorted(bodies(spool.root)) == [b"new"]


def test_a_queue_that_cannot_be_opened_keeps_no_message_from_another_queue(
    spool: Spool, files: HookedFiles
) -> None:
    (spool.root / "queues/bills").mkdir()
    attempt = Attempt(Job(spool, "app"), 1, "0-1")
    for queue in (QueueName("bills"), ORDERS):
        attempt.add([StagedMessage(queue, queue.encode())])
    attempt.seal()
    files.shut = "bills"

    with pytest.raises(PermissionError):
        commit(Job(spool, "app"), 1, ["0-1"])

    assert bodies(spool.root) == [b"orders"]
    assert bodies(spool.root, "queues/bills") == bodies(spool.root, "corrupt") == []
    assert sweep(spool.root) == []
    assert bodies(spool.root, "queues/bills") == [b"bills"]


def test_a_disk_without_room_for_a_folder_is_freed_of_what_an_aborted_write_has_staged(
    spool: Spool,
) -> None:
    staged = stage(spool, "0-1", b"one", job=".write")
    files = WatchedFiles()
    driver = visit_root(spool.root, files, Actor.SPARK)

    def make_no_new(folder_fd: int, name: str, _: int) -> None:
        if not os.access(name, os.F_OK, dir_fd=folder_fd):
            raising(errno.ENOSPC)()

    files.before["make_folder"] = make_no_new
    Job(driver, ".write").give_up(1, [staged])
    Job(driver, ".empty").give_up(1, [])

    driver.close()
    assert [len(names_in(each)) for each in (spool.root / "remove").glob("spark:*")] == [1]
    assert names_in(spool.root / "spark/stage") == names_in(spool.root / "spark/txn") == []


def test_a_message_that_cannot_be_compared_keeps_no_other_from_its_place(spool: Spool) -> None:
    attempt = Attempt(Job(spool, "app"), 1, "0-1")
    for each in "ab":
        write_message(spool.root / "queues/orders" / each, b"mine", seal=seal_of(b"mine"))
        attempt.add([StagedMessage(ORDERS, b"mine", MessageId(each))])
    attempt.seal()
    files = WatchedFiles()
    files.fail("open_to_look")
    driver = visit_root(spool.root, files, Actor.SPARK)

    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        commit(Job(driver, "app"), 1, ["0-1"])

    driver.close()
    assert names_in(spool.root / "remove") == ["orders:b"]
    assert sweep(spool.root) == []
    assert names_in(spool.root / "remove") == ["orders:a", "orders:b"]
