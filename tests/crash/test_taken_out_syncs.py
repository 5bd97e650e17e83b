"""Take out any sync: a promise is broken after some cut, or the list below says why not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.crash.enumeration.interference import WithoutSync
from tests.crash.enumeration.rows import ROWS
from tests.crash.enumeration.sight import Run, Sight
from tests.crash.enumeration.sites import Kind, sites_in_source

RUNS_A_ROW = 6
MOST_RUNS = 24
"""In so many runs that come by a sync its loss must show."""

EACH_FOLDER = "a rename is durable with either folder; both are synced so as not to rest on that"

REDUNDANT: dict[str, tuple[str, tuple[str, ...]]] = {
    "mq.store.by_id._take: a queue's folder": (EACH_FOLDER, ("mq.store.by_id._take: delay",)),
    "mq.store.by_id._take: delay": (EACH_FOLDER, ("mq.store.by_id._take: a queue's folder",)),
    "mq.store.move._move_one: delay": (EACH_FOLDER, ("mq.store.move._move_one: a queue's folder",)),
    "mq.store.purge.purge: remove": (
        "the folders that messages are taken from are synced; this one, so as not to rest on that",
        ("mq.store.purge.purge: delay",),
    ),
    "mq.store.queues.begin_deletion: queues": (
        EACH_FOLDER,
        ("mq.store.queues.begin_deletion: remove",),
    ),
    "mq.store.queues.begin_deletion: remove": (
        EACH_FOLDER,
        ("mq.store.queues.begin_deletion: queues",),
    ),
    "mq.store.receive.receive_some: delay": (
        EACH_FOLDER,
        ("mq.store.receive.receive_some: a queue's folder",),
    ),
    "mq.store.remove.remove: a queue's folder": (
        EACH_FOLDER,
        ("mq.store.remove.remove: remove",),
    ),
    "mq.store.remove.remove: delay": (EACH_FOLDER, ("mq.store.remove.remove: remove",)),
    "mq.store.remove.remove_leased: a queue's folder": (
        EACH_FOLDER,
        ("mq.store.remove.remove_leased: remove",),
    ),
    "mq.store.remove.remove_leased: delay": (
        EACH_FOLDER,
        ("mq.store.remove.remove_leased: remove",),
    ),
    "mq.spool.root_format.write_format: the root": (
        "a format file that is gone is written again; synced so that a server that is refused for "
        "it is refused for good",
        (),
    ),
    "mq.store.bodies.Upload.finish: a file": (
        "the barrier syncs the file too; a large body is synced before, so that no batch waits",
        ("mq.store.publish.publish: a file",),
    ),
    "mq_reaper.reaper.Reaper._sync: everything": (
        "the log keeps the unlink after the rename to `remove`; synced for file systems that are "
        "not known to keep that order",
        (),
    ),
}
"""Why nothing breaks without it, and what else must be taken out so that something does."""

NOT_RUN_HERE = {
    "mq.commit.group.GroupCommitter._pass_barrier": "calls the barrier, whose syncs are taken out",
    "mq.commit.blocking.": "runs the same operations over the same barrier",
    "mq.commit.group.GroupCommitter._reopen": "finds out whether the disk works; promises nothing",
    "mq.store.remove._sync_moved": "as `remove` does, for several: tests/store/test_remove.py",
    "mq.store.remove._unsynced": "says what `remove` and `remove_leased` yield",
    "mq.ctl.": "runs the same operations over the same barrier",
    "mq.fsck.": "repairs by hand, and is run again",
    "mq.store.probe.probe": "what it writes is nobody's",
    "mq.store.batch.Batch._known": "as `own_id._adopt` does",
    "mq.store.move._unsynced": "says what `move_ready` and `_move_one` yield",
    "mq.lines.transfer.flush": "writes a file of a person's",
    "mq.store.settings.change_settings": "settings of a queue: tests/store/test_settings.py",
    "mq.spool.settings_file.": "settings of a queue: tests/spool/test_settings_file.py",
    "pyspark_mq.pipeline.lake": "the lake, no root: tests/spark/pipeline",
    "mq.store.visibility.": "leases of SQS receipts: tests/sqs/operations/test_receipts.py",
    "mq.spool.spark.staging.": "Spark's sink: tests/spark",
    "mq.spool.spark.transactions.": "Spark's sink: tests/spark",
    "mq.spool.spark.claim": "Spark's claims: tests/spark",
    "pyspark_mq.by_url.": "Spark over HTTP: tests/spark/by_url",
    "vsqs.": "the queue without a server has its own tests",
}
"""Functions that sync, or beginnings of their names, that no row comes by."""


@pytest.fixture(scope="module")
def sight(quick_folder: Path) -> Iterator[Sight]:
    with Sight(quick_folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def seen(sight: Sight) -> dict[str, list[Run]]:
    """The runs that come by each site."""
    return sight.where_seen(WithoutSync, ROWS, RUNS_A_ROW)


def test_every_sync_is_needed_or_its_redundancy_is_explained(
    sight: Sight, seen: dict[str, list[Run]]
) -> None:
    missed = {
        site: violation
        for site, runs in seen.items()
        if (violation := _violation_without(sight, runs, site)) is not None
    }

    assert seen.keys() - missed.keys() == REDUNDANT.keys()


def test_a_redundant_sync_is_needed_without_the_other_one(
    sight: Sight, seen: dict[str, list[Run]]
) -> None:
    still_redundant = [
        site
        for site, (_, others) in REDUNDANT.items()
        if others and _violation_without(sight, seen[site], site, *others) is None
    ]

    assert still_redundant == []


def test_every_function_that_syncs_is_run_or_named(seen: dict[str, list[Run]]) -> None:
    not_run = sites_in_source(Kind.SYNC) - {site.partition(": ")[0] for site in seen}
    named = {site for site in not_run if any(site.startswith(name) for name in NOT_RUN_HERE)}

    assert not_run - named == set()
    assert [n for n in NOT_RUN_HERE if not any(site.startswith(n) for site in named)] == []


def _violation_without(sight: Sight, runs: list[Run], *sites: str) -> str | None:
    return sight.catches(partial(WithoutSync, *sites), runs[:MOST_RUNS])
