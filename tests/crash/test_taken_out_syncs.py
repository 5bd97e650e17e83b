"""Take out any sync: a promise is broken after some cut, or the list below says why not."""

from __future__ import annotations

from functools import partial

import pytest

import vsqs
from mq import ctl, fsck
from mq.commit import blocking, reopening, rounds
from mq.lines import transfer
from mq.spool import abilities, network_files, root_format
from mq.spool.message import fresh_copy
from mq.spool.spark import claiming, claims, letting_go, staging, transactions
from mq.store import bodies, by_id, probe, visibility
from mq.store.moving import move, move_many
from mq.store.publishing import batch, own_id, parts, publish, publish_each
from mq.store.queue import purge, queues, settings
from mq.store.receiving import lease, receive
from mq.store.removing import remove, remove_many
from mq.store.removing.remove_under_lease import remove_leased
from mq_reaper import reaper
from mq_sqs import fifo
from pyspark_mq import by_url, pipeline
from tests.crash.enumeration.interference import WithoutSync
from tests.crash.enumeration.rows import ROWS
from tests.crash.enumeration.sight import Run, Sight
from tests.crash.enumeration.sites import Kind, at, is_named, name_of, needless, sites_in_source

RUNS_A_ROW = 6
MOST_RUNS = 32
"""The loss of a sync must show within this many runs that come by it."""

FEW_RUNS = 6
"""A redundant sync is taken out of this many in the short form. If one is needed after all, no
promise is broken: the list below is wrong."""

SOURCE = "the folder that the name came to is synced; this one where there is no one log"
LINKED = "the file that got the name is synced; this folder where there is no one log"

ADOPTED = "what is in its queue is durable, but where a sweep has to deliver it as it is"

REDUNDANT: dict[str, tuple[str, tuple[str, ...]]] = {
    at(by_id._take, "a queue's folder"): (SOURCE, (at(by_id._take, "delay"),)),
    at(move_many._move_one, "delay"): (SOURCE, (at(move_many._move_one, "a queue's folder"),)),
    at(batch.seal_batch, "delay"): (SOURCE, (at(batch.seal_batch, "new"),)),
    at(own_id._adopt, "a file"): (ADOPTED, ()),
    at(own_id._adopt, "a queue's folder"): (
        "no row moves a message whose id is published again: test_power_cut_states.py does",
        (),
    ),
    at(fresh_copy.FreshCopy.take_place, "new"): (
        "a producer who is told of the message syncs this too",
        (at(own_id._adopt, "new"), at(own_id._adopt, "a queue's folder")),
    ),
    at(publish.publish, "new"): (LINKED, (at(publish.publish, "a file"),)),
    at(publish_each._sync, "new"): (LINKED, (at(publish_each._sync, "a file"),)),
    at(purge.purge, "remove"): (
        "the folders that messages are taken from are synced; this one, so as not to rest on that",
        (at(purge.purge, "delay"),),
    ),
    at(queues._make_durable, "a queue's folder"): (
        "it came to `queues`, which is synced; this one where there is no one log",
        (at(queues._make_durable, "queues"),),
    ),
    at(queues._make_durable, "new"): (SOURCE, (at(queues._make_durable, "queues"),)),
    at(queues.begin_deletion, "queues"): (SOURCE, (at(queues.begin_deletion, "remove"),)),
    at(remove.remove, "new"): (SOURCE, (at(remove.remove, "remove"),)),
    at(remove_many._sync_moved, "new"): (SOURCE, (at(remove_many._sync_moved, "remove"),)),
    at(remove_leased, "new"): (SOURCE, (at(remove_leased, "remove"),)),
    at(root_format.write_once, "the root"): (
        "a format file that is gone is written again; synced so that a server that is refused for "
        "it is refused for good",
        (),
    ),
    at(bodies.Upload._make, "a file"): (
        "the barrier syncs the file too; a large body is synced before, so that no batch waits",
        (at(publish.publish, "a file"),),
    ),
    at(settings.change_settings, "a queue's folder"): (
        "the rows change no settings: tests/store/queue/test_settings.py",
        (),
    ),
    at(visibility.change_visibility, "delay"): (
        SOURCE,
        (at(visibility.change_visibility, "a queue's folder"),),
    ),
    at(visibility._hide, "delay"): (
        "the file is synced; this folder where there is no one log",
        (at(visibility._hide, "a file"),),
    ),
    at(reaper.Reaper._sync, "everything"): (
        "the log keeps the unlink after the rename to `remove`; synced for file systems that are "
        "not known to keep that order",
        (),
    ),
}
"""Why nothing breaks without it, and what else must be taken out so that something does."""

NOT_RUN_HERE = {
    name_of(abilities): "makes nothing durable that anybody needs",
    name_of(network_files): "syncs for others: tests/store/test_network.py",
    name_of(rounds.Rounds.pass_barrier): "calls the barrier, whose syncs are taken out",
    name_of(blocking): "runs the same operations over the same barrier",
    name_of(reopening.Reopening.run): "finds out whether the disk works; promises nothing",
    name_of(lease._lease_by_move): "on file systems of the network: tests/store/test_network.py",
    name_of(receive.taken_from): "says what receives yield",
    name_of(remove.unsynced_absence): "says what `remove` and `remove_leased` yield",
    name_of(remove.unsynced_removal): "says what `remove` and `remove_leased` yield",
    name_of(ctl): "runs the same operations over the same barrier",
    name_of(fsck): "repairs by hand, and is run again",
    name_of(probe.probe): "what it writes is nobody's",
    name_of(parts.BatchPart._known): "as `own_id._adopt` does",
    name_of(move.unsynced_move): "says what moves yield",
    name_of(transfer.flush): "writes a file of a person's",
    name_of(pipeline): "the lake, no root: tests/spark/pipeline",
    name_of(fifo): "FIFO queues of the gateway: tests/sqs/fifo",
    name_of(staging): "Spark's sink: tests/spark",
    name_of(transactions): "Spark's sink: tests/spark",
    name_of(claiming): "Spark's claims: tests/spark",
    name_of(claims): "Spark's claims: tests/spark",
    name_of(letting_go): "Spark's claims: tests/spark",
    name_of(by_url): "Spark over HTTP: tests/spark/by_url",
    name_of(vsqs): "the queue without a server has its own tests",
}
"""Functions that sync and that no row comes by; a module or package means all of its functions."""


@pytest.fixture(scope="module")
def seen(sight: Sight) -> dict[str, list[Run]]:
    """The runs that come by each site."""
    return sight.where_seen(WithoutSync, ROWS, RUNS_A_ROW)


def test_every_sync_is_needed_or_its_redundancy_is_explained(
    sight: Sight, seen: dict[str, list[Run]]
) -> None:
    not_missed = {
        site
        for site, runs in seen.items()
        if not _is_missed(sight, runs[:FEW_RUNS] if site in REDUNDANT else runs, site)
    }

    assert not_missed == REDUNDANT.keys()


@pytest.mark.crash_long
def test_what_is_redundant_is_so_in_every_run(sight: Sight, seen: dict[str, list[Run]]) -> None:
    needed = [site for site in REDUNDANT if _is_missed(sight, seen[site], site)]

    assert needed == []


def test_a_redundant_sync_is_needed_without_the_other_one(
    sight: Sight, seen: dict[str, list[Run]]
) -> None:
    still_redundant = [
        site
        for site, (_, others) in REDUNDANT.items()
        if others and _violation_without(sight, seen[site], site, *others) is None
    ]

    assert still_redundant == []


def test_what_is_broken_is_reported_of_each_run_that_comes_to_it(
    sight: Sight, seen: dict[str, list[Run]]
) -> None:
    """Which of two runs comes to a state first may depend on the order of threads."""
    site = at(purge.purge, "queues")

    found = [_violation_without(sight, seen[site], site) for _ in range(3)]

    assert found[0] is not None
    assert found == [found[0]] * 3


def test_every_function_that_syncs_is_run_or_named(seen: dict[str, list[Run]]) -> None:
    not_run = sites_in_source(Kind.SYNC) - {site.partition(": ")[0] for site in seen}
    named = {site for site in not_run if is_named(site, NOT_RUN_HERE)}

    assert not_run - named == set()
    assert needless(NOT_RUN_HERE, named) == []


def _is_missed(sight: Sight, runs: list[Run], site: str) -> bool:
    return _violation_without(sight, runs, site) is not None


def _violation_without(sight: Sight, runs: list[Run], *sites: str) -> str | None:
    return sight.catches(partial(WithoutSync, *sites), runs[:MOST_RUNS])
