"""Transactions when something comes in between: a replaced driver, a sweep, another version, a
fault of the disk. What was committed comes to its queue, or the commit says that it was not."""

from __future__ import annotations

import errno
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from mq.disk.files import Files
from mq.errors import ClaimError
from mq.lifecycle import Actor
from mq.spool.root import visit_root
from mq.spool.spark.jobs import Job
from mq.spool.spark.staging import Attempt, StagedMessage
from mq.spool.spark.transactions import commit, sweep_transactions
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper, Swept
from tests.support.faults import raising
from tests.support.spark_files import (
    PATIENCE,
    TWO_DAYS_NS,
    Cut,
    HookedFiles,
    bodies,
    dies,
    stage,
    sweep,
    visit_new_root,
)
from tests.support.stores import ORDERS


def sweep_a_day_ahead(root: Path) -> None:
    """Sweep like a server whose clock is ahead, or like any server once a driver has slept for a
    day."""
    server = visit_root(root, Files(), Actor.SERVER)
    sweep_transactions(server, time.time_ns() + TWO_DAYS_NS)
    server.close()


def test_a_replaced_driver_gives_up_its_own_attempts_and_no_others(spool: Spool) -> None:
    old = stage(spool, "0-old", b"one")
    new = [stage(spool, "0-new", b"one"), stage(spool, "1-new", b"two")]

    Job(spool, "app").give_up(1, [old])
    commit(Job(spool, "app"), 1, new)

    assert sorted(bodies(spool.root)) == [b"one", b"two"]


def test_an_abort_after_the_link_gives_up_nothing_that_won(
    spool: Spool, files: HookedFiles
) -> None:
    winner = stage(spool, "0-1", b"one")
    files.before_delivery = raising(errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        commit(Job(spool, "app"), 1, [winner])
    files.before_delivery = lambda: None

    Job(spool, "app").give_up(1, [winner])
    sweep(spool.root)

    assert sorted(bodies(spool.root)) == [b"one"]


def test_a_commit_whose_winner_a_sweep_has_given_up_raises_and_can_be_done_again(
    spool: Spool,
) -> None:
    winners = [stage(spool, "0-1", b"one"), stage(spool, "1-1", b"two")]
    sweep_a_day_ahead(spool.root)

    with pytest.raises(ClaimError, match="is not there any more"):
        commit(Job(spool, "app"), 1, winners)

    assert not Job(spool, "app").is_committed(1)
    commit(Job(spool, "app"), 1, [stage(spool, "0-2", b"one"), stage(spool, "1-2", b"two")])
    assert sorted(bodies(spool.root)) == [b"one", b"two"]


def test_a_commit_with_one_winner_missing_brings_none_of_the_others(spool: Spool) -> None:
    winners = [stage(spool, "0-1", b"one"), stage(spool, "1-1", b"two")]
    shutil.rmtree(spool.root / "spark/stage/app/1/1-1")

    with pytest.raises(ClaimError, match="1-1 is not there any more"):
        commit(Job(spool, "app"), 1, winners)

    sweep(spool.root)
    assert sorted(bodies(spool.root)) == []
    assert not Job(spool, "app").is_committed(1)


def test_no_sweep_comes_between_the_look_at_the_winners_and_the_link(
    spool: Spool, files: HookedFiles
) -> None:
    winners = [stage(spool, "0-1", b"one"), stage(spool, "1-1", b"two")]
    files.before_link = lambda: sweep_a_day_ahead(spool.root)

    commit(Job(spool, "app"), 1, winners)

    assert sorted(bodies(spool.root)) == [b"one", b"two"]


def test_a_winner_that_somebody_takes_away_without_a_lock_undoes_the_link(
    spool: Spool, files: HookedFiles
) -> None:
    winners = [stage(spool, "0-1", b"one"), stage(spool, "1-1", b"two")]
    files.before_link = lambda: shutil.rmtree(spool.root / "spark/stage/app/1/0-1")

    with pytest.raises(ClaimError, match="0-1 is not there any more"):
        commit(Job(spool, "app"), 1, winners)

    assert not Job(spool, "app").is_committed(1)
    sweep(spool.root)
    assert sorted(bodies(spool.root)) == []


def test_a_task_at_work_is_left_alone_by_a_sweep_a_day_ahead(spool: Spool) -> None:
    attempt = Attempt(Job(spool, "app"), 1, "0-1")
    attempt.add([StagedMessage(ORDERS, b"one")])
    sweep_a_day_ahead(spool.root)
    attempt.add([StagedMessage(ORDERS, b"two")])
    attempt.seal()

    commit(Job(spool, "app"), 1, ["0-1"])

    assert sorted(bodies(spool.root)) == [b"one", b"two"]


def test_a_batch_whose_driver_died_after_the_link_is_finished_before_the_next_one_counts(
    spool: Spool, files: HookedFiles
) -> None:
    winner = stage(spool, "0-1", b"one", b"two")
    files.before_delivery = dies
    with pytest.raises(Cut):
        commit(Job(spool, "app"), 1, [winner])
    files.before_delivery = lambda: None

    commit(Job(spool, "app"), 2, [stage(spool, "0-2", b"three", batch=2)])

    assert sorted(bodies(spool.root)) == [b"one", b"three", b"two"]


def test_a_batch_that_cannot_be_finished_lets_no_later_one_count(
    spool: Spool, files: HookedFiles
) -> None:
    winner = stage(spool, "0-1", b"one")
    files.before_delivery = raising(errno.ENOSPC)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        commit(Job(spool, "app"), 1, [winner])
    later = stage(spool, "0-2", b"two", batch=2)

    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        commit(Job(spool, "app"), 2, [later])

    assert not Job(spool, "app").is_committed(2)
    files.before_delivery = lambda: None
    commit(Job(spool, "app"), 2, [later])
    assert sorted(bodies(spool.root)) == [b"one", b"two"]


def test_two_versions_that_commit_at_the_same_time_both_come(
    spool: Spool, files: HookedFiles
) -> None:
    first, second = stage(spool, "0-1", b"one"), stage(spool, "0-2", b"two", batch=2)
    other_waits, is_delivering = Event(), Event()

    class WaitingWriter(Files):
        def lock(self, fd: int) -> bool:
            is_free = super().lock(fd)
            if not is_free:
                other_waits.set()
            return is_free

    def hold_up() -> None:
        is_delivering.set()
        assert other_waits.wait(PATIENCE)

    files.before_delivery = hold_up
    other = visit_root(spool.root, WaitingWriter(), Actor.SPARK)
    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(commit, Job(spool, "app"), 1, [first])
        assert is_delivering.wait(PATIENCE)
        two = threads.submit(commit, Job(other, "app"), 2, [second])
        assert (one.result(PATIENCE), two.result(PATIENCE)) == (1, 2)
    other.close()

    assert sorted(bodies(spool.root)) == [b"one", b"two"]


def test_a_version_that_was_overtaken_is_reported_as_such(spool: Spool) -> None:
    overtaken = stage(spool, "0-1", b"one")
    commit(Job(spool, "app"), 2, [stage(spool, "0-2", b"two", batch=2)])

    assert commit(Job(spool, "app"), 1, [overtaken]) == 2

    assert sorted(bodies(spool.root)) == [b"two"]


def test_a_server_whose_root_was_moved_brings_nothing_out_of_the_one_in_its_place(
    root: Path, tmp_path: Path
) -> None:
    """A person has put a backup there, and the server that is running has the old folders open."""
    moved, files = tmp_path / "moved", HookedFiles()
    visit_new_root(root, Files()).close()
    with closing(visit_root(root, Files(), Actor.SERVER)) as server:
        root.rename(moved)
        files.before_delivery = raising(errno.EIO)
        failing = pytest.raises(OSError, match=os.strerror(errno.EIO))
        with closing(visit_new_root(root, files)) as driver, failing:
            commit(Job(driver, "app"), 1, [stage(driver, "0-1", b"one")])

        swept = Sweeper(server, lambda *_: None).sweep()

    assert (swept, bodies(moved)) == (Swept(), [])
    assert bodies(root, "spark/stage/app/1/0-1") == [b"one"]
