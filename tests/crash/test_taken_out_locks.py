"""Two actors in every interleaving; and take out any lock: a promise is broken in one of them, or
the list below says why none is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.crash.enumeration.duels import DUELS, LAST_STEP
from tests.crash.enumeration.interference import Interference, WithoutLock
from tests.crash.enumeration.rows import Row
from tests.crash.enumeration.sight import Run, Sight
from tests.crash.enumeration.sites import UPLOAD, Kind, sites_in_source

NEEDED = {
    "mq.spool.purged.close_abandoned: lock": "sweep while purging",
    "mq.spool.purged.open_part: lock": "sweep while purging",
    "mq.spool.purging.Purge._alone: lock": "receive while purging",
    "mq.spool.queues.begin_deletion: lock": "delete while making",
    "mq.spool.queues.finish_deletion: lock": "make again while deleting",
    "mq.spool.queues.make_queue: lock": "make while deleting",
    "mq.spool.root._send_probe: lock": "sweep while starting",
    "mq.spool.sweep.Sweeper._discard_upload: lock": "sweep while uploading",
    "mq.spool.sweep.Sweeper._place: lock": "sweep while a publish fails",
    "mq.spool.sweep.Sweeper.finish_batch: lock": "sweep while publishing a batch",
    "mq.store.batch.Batch._make: lock": "sweep while publishing a batch",
    "mq.store.batch.Batch.fill: lock_byte": "publish an own id in a batch",
    "mq.store.batch.seal_batch: lock_shared": "seal while deleting",
    "mq.store.by_id.hold_by_id: lock": "prolong late",
    "mq.store.move._move_or_report: lock": "move while receiving",
    "mq.store.own_id._publish: lock_byte": "publish an own id twice",
    "mq.store.own_id._publish: lock_shared": "delete while publishing an own id",
    "mq.store.publish.publish: lock": "sweep while publishing",
    "mq.store.publish.publish: lock_shared": "delete while publishing",
    "mq.store.taking.take_ready: lock": "two receivers",
    "mq.store.receive.receive_some: lock_shared": "receive while deleting",
    "mq.store.release.put_back: lock": "put back late",
    "mq.store.remove._move: lock_shared": "remove while deleting",
    "mq.store.remove._move_leased: lock": "remove late",
    "mq_mover.mover.Mover._try_move: lock": "two movers",
    f"{UPLOAD}: lock": "sweep while uploading",
}
"""Every lock, and the duel in which its loss shows."""

REDUNDANT = {
    "mq.store.lease.set_aside_leased": "a body that fails its seal fails it for everybody",
    "mq.store.publish._deliver": "saves a look at the queue for each message; without it the "
    "move asks whether the queue is there",
    "mq.store.own_id._is_left_over": "the lock of the id keeps other publishers of it away; a "
    "sweep that comes in between moves the file on, and the descriptor stays the file's",
    "mq.spool.sweep.Sweeper._set_aside_if_damaged": "only a sealed batch is looked at, whose lock "
    "is held, and a damaged body stays damaged",
}
"""Functions whose lock nothing needs, and why it is there."""

NOT_RUN_HERE = {
    "mq.kombu.": "a client: its locks are of threads",
    "mq.store.answer_memory.": "holds memory, of no file",
    "mq.web.downloads._let_go": "holds memory, of no file",
    "mq.store.move.": "moves between queues: tests/store/test_move_races.py",
    "mq.store.probe.probe": "if a sweep discards the probe it fails, and is asked again",
    "mq.spool.settings_file.": "settings of a queue: tests/spool/test_settings_file.py",
    "mq.store.expiry.": "messages that expire: tests/store/test_expiry.py",
    "mq.store.visibility.": "leases of SQS receipts: tests/sqs/operations/test_receipts.py",
    "mq.spool.spark.staging.": "Spark's sink: tests/spark",
    "mq.spool.spark.transactions.": "Spark's sink: tests/spark",
    "mq.spool.spark.jobs.": "Spark's sink: tests/spark",
    "mq.spool.spark.claim": "Spark's claims: tests/spark",
    "mq.spool.locks.": "whether locks work at all: tests/spool/test_locks.py",
    "mq.fsck.": "tests/fsck/test_races.py",
    "pyspark_mq.by_url.": "Spark over HTTP: tests/spark/by_url",
    "vsqs.": "the queue without a server has its own tests",
}
"""Functions that lock, or beginnings of their names, and where their locks are tested."""


@pytest.fixture(scope="module")
def sight(quick_folder: Path) -> Iterator[Sight]:
    with Sight(quick_folder) as opened:
        yield opened


@pytest.mark.parametrize("duel", DUELS.values(), ids=lambda duel: duel.name)
def test_nothing_is_broken_in_any_interleaving(sight: Sight, duel: Row) -> None:
    assert [
        found for run in _runs(sight, duel) if (found := sight.violation(run, Interference()))
    ] == []


@pytest.mark.parametrize("site", NEEDED)
def test_without_its_lock_a_promise_is_broken(sight: Sight, site: str) -> None:
    runs = _runs(sight, DUELS[NEEDED[site]])

    assert sight.catches(partial(WithoutLock, site), runs) is not None


def test_every_function_that_locks_is_in_one_of_the_lists() -> None:
    needed = {site.partition(": ")[0] for site in NEEDED} - {UPLOAD}
    others = sites_in_source(Kind.LOCK) - needed
    elsewhere = {site for site in others if any(site.startswith(name) for name in NOT_RUN_HERE)}

    assert others - elsewhere == REDUNDANT.keys()
    assert needed <= sites_in_source(Kind.LOCK)
    assert [n for n in NOT_RUN_HERE if not any(site.startswith(n) for site in elsewhere)] == []


def _runs(sight: Sight, duel: Row) -> list[Run]:
    """One for each step of the first actor before which the second one comes, and one after all."""
    for last in range(LAST_STEP):
        if sight.play((duel, last), Interference()).is_over:
            return [(duel, step) for step in range(last + 1)]
    raise AssertionError(f"{duel.name} has more than {LAST_STEP} steps")
