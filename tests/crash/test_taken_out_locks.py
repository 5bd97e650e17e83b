"""Two actors in every interleaving; and take out any lock: a promise is broken in one of them, or
the list below says why none is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

import vsqs
from mq import fsck, kombu
from mq.daemon import sockets
from mq.spool import (
    abilities,
    finder,
    leftovers,
    locks,
    network_files,
    redelivery,
    rolling,
    root,
    sweep,
)
from mq.spool.message import fresh_copy
from mq.spool.queue import fresh_folder, prepared, purged, purging, queues, settings_file
from mq.spool.spark import claiming, claims, jobs, staging, transactions
from mq.store import answer_memory, by_id, probe, reservations, visibility
from mq.store.moving import move
from mq.store.publishing import (
    batch,
    delivering,
    filling,
    handing_over,
    own_id,
    publish,
    publish_each,
    twins,
)
from mq.store.queue import expiry
from mq.store.receiving import lease, lease_each, put_back, receive, taking
from mq.store.removing import remove, remove_many, remove_under_lease
from mq.web import downloads
from mq_mover import mover
from mq_reaper import reaper
from mq_sqs import fifo
from mq_sqs.operations import receiving
from mq_sqs.tasks import move_tasks
from pyspark_mq import by_url, pipeline
from tests.crash.enumeration.duels import DUELS, LAST_STEP
from tests.crash.enumeration.interference import Interference, WithoutLock
from tests.crash.enumeration.rows import Row
from tests.crash.enumeration.scene import Scene
from tests.crash.enumeration.sight import Run, Sight
from tests.crash.enumeration.sites import (
    UPLOAD,
    Kind,
    at,
    is_named,
    name_of,
    needless,
    sites_in_source,
)

NEEDED = {
    at(purged._close_parts, "lock"): "sweep while purging",
    at(purged.open_part, "lock"): "sweep while purging",
    at(purging.Purge._alone, "lock"): "come and go while purging",
    at(purging.Purge.begin, "lock"): "receive while purging",
    at(rolling._Rolling.roll, "lock_shared"): "roll forward while purging a folder",
    at(sweep.Sweeper._move_on, "lock_shared"): "deliver while purging a folder",
    at(redelivery.redeliver, "lock_shared"): "redeliver while purging a folder",
    at(redelivery._locked_ids, "lock_byte"): "bury while its id comes again",
    at(queues.begin_deletion, "lock"): "delete while making",
    at(queues.finish_deletion, "lock"): "make again while deleting",
    at(queues.name_queue, "lock"): "make while deleting",
    at(root._send_probe, "lock"): "sweep while starting",
    at(sweep.Sweeper._discard_upload, "lock"): "sweep while uploading",
    at(sweep.Sweeper._place, "lock"): "sweep while a publish fails",
    at(sweep.Sweeper.finish_batch, "lock"): "sweep while publishing a batch",
    at(filling.Batch._make, "lock"): "sweep while publishing a batch",
    at(filling.Batch._lock_ids, "lock_byte"): "publish an own id in a batch",
    at(batch._hold_with_space, "lock_shared"): "seal for several queues while deleting one",
    at(handing_over.take_message, "lock"): "hand over late",
    at(by_id.hold_by_id, "lock"): "prolong late",
    at(move.try_move, "lock"): "move while receiving",
    at(own_id._publish, "lock_byte"): "publish an own id twice",
    at(own_id.lock_missing, "lock_byte"): "publish an own id together twice",
    at(own_id._publish, "lock_shared"): "delete while publishing an own id",
    at(publish.publish, "lock"): "deliver as it is while publishing",
    at(publish.publish, "lock_shared"): "delete while publishing",
    at(publish_each._link_all, "lock"): "deliver as they are while publishing",
    at(publish_each._is_usual, "lock_shared"): "delete while publishing together",
    at(taking.Taker.take, "lock"): "two receivers",
    at(taking.Taker.take_together, "lock"): "two receivers of many",
    at(receive.lease_some, "lock_shared"): "receive while deleting",
    at(lease_each._take, "lock"): "two receivers of two queues",
    at(lease_each._find, "lock_shared"): "receive together while deleting",
    at(put_back.put_back, "lock"): "put back late",
    at(put_back._uncount, "lock"): "put back what is back",
    at(remove.move_on, "lock_shared"): "remove while deleting",
    at(remove_under_lease.move_leased, "lock"): "remove late",
    at(remove_under_lease.move_leased, "lock_shared"): "remove while its id comes again",
    at(remove_many._out_of_reach, "lock_shared"): "remove several while their ids come again",
    at(remove_under_lease.move_together, "lock"): "remove several late",
    at(visibility.change_visibility, "lock"): "show late",
    at(mover.Mover._try_move, "lock"): "two movers",
    at(reaper.Reaper._unlink, "lock"): "remove while its id is reaped",
    f"{UPLOAD}: lock": "sweep while uploading",
}
"""Every lock, and the duel in which its loss shows."""

REDUNDANT = {
    name_of(by_id._release): "the redelivery takes it too; a release that has it already waits for "
    "a purge where that one would give up",
    name_of(leftovers.Leftovers._is_held): "takes the lock to see whether it is free",
    name_of(fresh_copy.FreshCopy.write): "without it another sweep discards the copy, and delivers "
    "the message",
    name_of(fresh_folder.bring_back): "moves no message",
    name_of(prepared.PreparedQueue.make): "without it a sweep takes the folder away, and another "
    "one is made: others come while making with settings",
    name_of(lease.set_aside_leased): "a body that fails its seal fails it for everybody",
    name_of(
        publish.try_to_hold
    ): "as `delivering.deliver`; the committer does not wait for a purge",
    name_of(filling.Batch.deliver): "as `delivering.deliver`",
    name_of(delivering._move_usual): "as `delivering.deliver`",
    name_of(
        delivering.deliver
    ): "what is published while its queue is purged may go with the rest; "
    "with it what was answered after the purge stays",
    name_of(twins._is_left_over): "the lock of the id keeps other publishers of it away; a "
    "sweep that comes in between moves the file on, and the descriptor stays the file's",
    name_of(sockets.bind_unix): "of the folder of a socket: tests/daemon/test_sockets.py",
    name_of(sweep.Sweeper._set_aside_if_damaged): "only a sealed batch is looked at, whose lock "
    "is held, and a damaged body stays damaged",
}
"""Functions whose lock nothing needs, and why it is there."""

NOT_RUN_HERE = {
    name_of(kombu): "a client: its locks are of threads",
    name_of(answer_memory): "holds memory, of no file",
    name_of(downloads._let_go): "holds memory, of no file",
    name_of(finder.is_taken): "dead letters of a removed id: tests/spool/test_redelivery.py",
    name_of(twins.has_another): "moves between queues: tests/store/moving/test_moved_ids.py",
    name_of(move): "moves between queues: tests/store/moving/test_move_races.py",
    name_of(reservations): "a hint to other servers: tests/store/test_reservations.py",
    name_of(probe.probe): "if a sweep discards the probe it fails, and is asked again",
    name_of(settings_file): "settings of a queue: tests/spool/queue/test_settings_file.py",
    name_of(expiry): "messages that expire: tests/store/queue/test_expiry.py",
    name_of(fifo): "FIFO queues of the gateway: tests/sqs/fifo",
    name_of(move_tasks): "move tasks of SQS: tests/sqs/tasks/test_move_tasks.py",
    name_of(staging): "Spark's sink: tests/spark",
    name_of(transactions): "Spark's sink: tests/spark",
    name_of(jobs): "Spark's sink: tests/spark",
    name_of(claiming): "Spark's claims: tests/spark",
    name_of(claims): "Spark's claims: tests/spark",
    name_of(locks): "names, and whether locks work at all: tests/spool/test_locks.py",
    name_of(network_files): "takes the locks of others: tests/spool/test_network_files.py",
    name_of(abilities): "whether locks work at all: tests/spool/test_abilities.py",
    name_of(fsck): "tests/fsck/test_races.py",
    name_of(by_url): "Spark over HTTP: tests/spark/by_url",
    name_of(pipeline): "the lake, no root: tests/spark/pipeline/lake/test_lake.py",
    name_of(receiving._receive_again): "holds memory, and locks nothing",
    name_of(vsqs): "the queue without a server has its own tests",
}
"""Functions that lock, and where their locks are tested; a module or package means all of its
functions."""


@pytest.fixture(scope="module")
def known_runs() -> dict[Row, list[Run]]:
    """The runs of each duel that was played until its end. They are the same each time."""
    return {}


@pytest.mark.parametrize("duel", DUELS.values(), ids=lambda duel: duel.name)
def test_nothing_is_broken_in_any_interleaving(
    sight: Sight, known_runs: dict[Row, list[Run]], duel: Row
) -> None:
    played = [(run, sight.violation_in(scene, run)) for run, scene in _play_all(sight, duel)]

    known_runs[duel] = [run for run, _ in played]
    assert [found for _, found in played if found] == []


@pytest.mark.parametrize("site", NEEDED)
def test_without_its_lock_a_promise_is_broken(
    sight: Sight, known_runs: dict[Row, list[Run]], site: str
) -> None:
    duel = DUELS[NEEDED[site]]
    runs = known_runs.get(duel) or [run for run, _ in _play_all(sight, duel)]

    assert sight.catches(partial(WithoutLock, site), runs) is not None


def test_every_function_that_locks_is_in_one_of_the_lists() -> None:
    needed = {site.partition(": ")[0] for site in NEEDED} - {UPLOAD}
    others = sites_in_source(Kind.LOCK) - needed
    elsewhere = {site for site in others if is_named(site, NOT_RUN_HERE)}

    assert others - elsewhere == REDUNDANT.keys()
    assert needed <= sites_in_source(Kind.LOCK)
    assert needless(NOT_RUN_HERE, elsewhere) == []


def _play_all(sight: Sight, duel: Row) -> Iterator[tuple[Run, Scene]]:
    """One for each step of the first actor before which the second one comes, and one after all."""
    for run in ((duel, step) for step in range(LAST_STEP)):
        scene = sight.play(run, Interference())
        yield run, scene
        if scene.is_over:
            return
    raise AssertionError(f"{duel.name} has more than {LAST_STEP} steps")
