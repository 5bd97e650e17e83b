"""Parts of purges that a crash has left open: a sweep hands each one to the reaper."""

from __future__ import annotations

import errno
import os

from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.queue.purged import close_abandoned, close_part, open_part
from mq.spool.queue.queues import begin_deletion, finish_deletion, make_queue
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in
from tests.support.stores import ORDERS


def test_a_dead_purge_is_closed_by_a_sweep_and_a_living_one_is_not(spool: Spool) -> None:
    part = open_part(spool, ORDERS)
    assert close_abandoned(spool) == 0

    spool.files.close(part.fd)

    assert close_abandoned(spool) == 1
    assert names_in(spool.root / "remove" / "orders:.purged") == ["1"]


def test_a_purge_that_cannot_be_closed_is_named_and_keeps_no_other_open(
    spool: Spool, files: WatchedFiles
) -> None:
    purges = [QueueName(each) for each in ("bills", "orders", "returns")]
    for queue in purges:
        spool.files.close(open_part(spool, queue).fd)

    def refuse(_: int, name: str, *__: object) -> None:
        if name.startswith("orders:.purged"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)

    files.before["rename"] = refuse
    reports: list[tuple[str, str]] = []

    Sweeper(spool, lambda *left: reports.append(left)).sweep()

    removed = spool.root / "remove"
    assert [names_in(removed / f"{each}:.purged") for each in purges] == [["1"], ["1.open"], ["1"]]
    assert reports == [
        ("remove", "remove/orders:.purged cannot be left to the reaper: Permission denied")
    ]


def test_a_purge_closes_its_own_part_and_no_other_of_the_same_name(spool: Spool) -> None:
    """Its queue was deleted and made again meanwhile, and is purged again. The reaper would remove
    the part that this purge moves messages to."""
    old = open_part(spool, ORDERS)
    begin_deletion(spool, ORDERS)
    finish_deletion(spool, ORDERS)
    make_queue(spool.files, spool.fd(Folder.QUEUES), ORDERS)
    new = open_part(spool, ORDERS)
    assert new.name == old.name

    close_part(spool, old)

    assert names_in(spool.root / "remove" / "orders:.purged") == ["1.open"]
    close_part(spool, new)
    assert names_in(spool.root / "remove" / "orders:.purged") == ["1"]
