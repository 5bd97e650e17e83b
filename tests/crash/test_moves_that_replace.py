"""Let any move replace: it destroys a file that comes to be in its way, or the list below says why
it cannot. As the code is, each such file is left."""

from __future__ import annotations

from functools import partial

import pytest

import pyspark_mq
import vsqs
from mq import client, ctl, fsck, kombu, web
from mq.spool import abilities, handovers, network_files, root, root_format, sweep
from mq.spool.message import fresh_copy
from mq.spool.queue import fresh_folder, prepared, purged, purging, queues, settings_file
from mq.spool.spark import (
    claiming,
    claims,
    jobs,
    letting_go,
    marker_files,
    settle,
    staging,
    transactions,
)
from mq.store import probe
from mq.store.publishing import batch, filling, own_id, parts, twins
from mq.store.queue import expiry
from mq.store.receiving import lease
from mq.store.removing import remove
from mq_mover import mover
from mq_sqs import fifo
from mq_sqs.tasks import move_chunks, move_tasks
from tests.crash.enumeration.interference import Occupied
from tests.crash.enumeration.rows import ROWS
from tests.crash.enumeration.sight import Run, Sight
from tests.crash.enumeration.sites import Kind, is_named, name_of, needless, sites_in_source

RUNS_A_ROW = 4
MOST_RUNS = 6

PLAYED = [row for row in ROWS if row.name not in ("reap", "first start, no unnamed files")]
"""The reaper would destroy what is in `remove`, and no server starts on a foreign format file, as
it should be."""

A_FOLDER = "moves a folder, and a folder replaces only an empty one"

CANNOT_REPLACE = {
    name_of(prepared.PreparedQueue._move): A_FOLDER,
    name_of(prepared.PreparedQueue.close): "the name is that of a new UUID",
    name_of(queues._put_away_members): "hands on to `move_aside`, as `remove` does",
    name_of(queues.begin_deletion): A_FOLDER,
    name_of(handovers.give_up): A_FOLDER,
    name_of(queues.finish_deletion): "the name is that of a new UUID",
    name_of(fresh_copy.FreshCopy.write): "the name has 64 random bits",
    name_of(fresh_copy.FreshCopy.take_place): "exchanges two names: both files keep one",
    name_of(settings_file._replace): "the name is that of a new UUID",
    name_of(root._send_probe): "the name has 48 random bits",
    name_of(parts.BatchPart._copy): "a link, and the set has the name of a new UUID",
    name_of(remove.move_on): "goes on after a rename, and may find its message in `remove`",
    name_of(remove.remove_other_names): "finishes a move: both names are those of one file",
}
"""Moves that need no protection, and why."""

NOT_RUN_HERE = {
    name_of(fsck): "tests/fsck/test_duplicate.py",
    name_of(probe.probe): "the name has 48 random bits",
    name_of(staging): "Spark's sink: tests/spark",
    name_of(transactions): "Spark's sink: tests/spark",
    name_of(jobs): "Spark's sink: tests/spark",
    name_of(settle): "Spark's sink and claims: tests/spark",
    name_of(claiming): "Spark's claims: tests/spark",
    name_of(claims): "Spark's claims: tests/spark",
    name_of(letting_go): "Spark's claims: tests/spark",
    name_of(marker_files): "Spark's queries: tests/spark",
    name_of(root_format.write_once): "what another server wrote meanwhile is the same",
    name_of(sweep.Sweeper._set_aside_if_damaged): "hands on to `move_aside`, as `remove` does",
    name_of(batch): A_FOLDER,
    name_of(filling): A_FOLDER,
    name_of(purged): A_FOLDER,
    name_of(fresh_folder): "exchanges two folders, and moves no message: "
    "tests/spool/queue/test_fresh_folder.py",
    name_of(purging.Purge._remove_aside): "tests/spool/queue/test_purging.py",
    name_of(expiry._remove): "hands on to `move_aside`, as `remove` does",
    name_of(lease._lease_by_move): "on file systems of the network: tests/store/test_network.py",
    name_of(lease.set_aside_leased): "hands on to `_set_aside`",
    name_of(twins._is_twin): "hands on to `move_aside`, as `remove` does",
    name_of(twins._make_room): "hands on to `move_aside`, as `remove` does",
    name_of(own_id.keep_unless_twin): "hands on to `move_aside`, as `remove` does",
    name_of(abilities): "works in a folder of its own: tests/spool/test_abilities.py",
    name_of(network_files): "tests/spool/test_network_files.py, tests/store/test_network.py",
    name_of(kombu): "asks a server",
    name_of(client): "asks a server",
    name_of(ctl): "asks a server or the store",
    name_of(web): "asks the store",
    name_of(fifo): "FIFO queues of the gateway: tests/sqs/fifo",
    name_of(move_tasks): "asks the store",
    name_of(move_chunks): "asks the store",
    name_of(mover.Mover._move): "tests/mover/test_mover.py",
    name_of(pyspark_mq): "tests/spark",
    name_of(vsqs): "the queue without a server has its own tests",
}
"""Functions that move and that no row comes by; a module or package means all of its functions."""


@pytest.fixture(scope="module")
def seen(sight: Sight) -> dict[str, list[Run]]:
    """The runs that come by each site."""
    return sight.where_seen(Occupied, PLAYED, RUNS_A_ROW)


def test_no_move_replaces_and_any_that_did_would_be_seen(
    sight: Sight, seen: dict[str, list[Run]]
) -> None:
    sites = {site: runs[:MOST_RUNS] for site, runs in seen.items() if site not in CANNOT_REPLACE}
    destroying = {s for s, runs in sites.items() if _destroys(sight, Occupied(s), runs)}
    unseen = {
        s for s, runs in sites.items() if not _destroys(sight, Occupied(s, replacing=True), runs)
    }

    assert destroying == set()
    assert unseen == set()


def test_every_function_that_moves_is_run_or_named(seen: dict[str, list[Run]]) -> None:
    others = sites_in_source(Kind.MOVE) - (seen.keys() - CANNOT_REPLACE.keys())
    elsewhere = {site for site in others if is_named(site, NOT_RUN_HERE)}

    assert others - elsewhere == CANNOT_REPLACE.keys()
    assert needless(NOT_RUN_HERE, elsewhere) == []


def _destroys(sight: Sight, interference: Occupied, runs: list[Run]) -> bool:
    """Whether in any of the runs the file that was in the way has no name any more."""
    make = partial(Occupied, *interference.sites, replacing=interference.replacing)
    for run in runs:
        interference = make()
        disk = sight.play(run, interference).disk
        contents = disk.contents()
        left = {contents.get(inode) for inode in disk.tree.names.values()}
        if interference.struck and Occupied.CONTENT not in left:
            return True
    return False
