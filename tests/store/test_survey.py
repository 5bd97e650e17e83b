"""Counting all messages, again and again."""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mq.ctl.ways.inspect import count_queue
from mq.disk.files import Files
from mq.lifecycle import Actor, Folder
from mq.names import QueueName
from mq.spool.root import open_root, visit_root
from mq.spool.spool import Spool
from mq.store import survey
from mq.store.store import Store
from mq.store.survey import QueueSurvey, Ready, Surveyor
from tests.support.faults import WatchedFiles, raising
from tests.support.messages import new_id, write_message
from tests.support.stores import ORDERS, publish, store_on

LONG_AGO_NS = 10**18


def test_a_queue_is_listed_again_only_when_its_folder_has_changed(
    root: Path, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_root(root, 0o700, Files())[0].close()
    spool = Spool(root, Files(), Actor.SERVER)
    listings: Counter[str] = Counter()
    names_in_queue = Spool.names_in_queue

    def count(spool: Spool, queue: QueueName) -> list[str]:
        listings[queue] += 1
        return names_in_queue(spool, queue)

    monkeypatch.setattr(Spool, "names_in_queue", count)
    monkeypatch.setattr(survey, "SURVEY_PAUSE_FACTOR", 0)
    orders.mkdir()
    write_message(orders / new_id())
    os.utime(orders, ns=(LONG_AGO_NS, LONG_AGO_NS))
    surveyor = Surveyor(spool, time.time_ns)

    def ready() -> int:
        return surveyor.survey({}).queues[ORDERS].ready

    assert [ready(), ready(), ready()] == [1, 1, 1]
    assert listings[ORDERS] == 1
    write_message(orders / new_id())
    assert ready() == 2
    assert listings[ORDERS] == 2
    assert surveyor.survey({ORDERS: Ready(7, 0)}).queues[ORDERS].ready == 7
    (orders / os.listdir(orders)[0]).unlink()
    assert ready() == 1
    spool.close()


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("nowhere")])
def test_what_has_the_place_of_a_folder_keeps_nothing_from_being_counted(
    root: Path, spool: Spool, make: Callable[[Path], object]
) -> None:
    make(root / Folder.CORRUPT)

    found = Surveyor(spool, time.time_ns).survey({})

    assert list(found.queues) == [ORDERS]
    assert found.files[Folder.CORRUPT] == 0


def test_what_is_hidden_of_a_queue_that_is_not_there_makes_no_queue(
    root: Path, spool: Spool
) -> None:
    for name in ("gone:1", "orders:1"):
        write_message(root / Folder.DELAY / name)

    found = Surveyor(spool, time.time_ns).survey({})

    assert found.queues == {ORDERS: QueueSurvey(leased=1)}
    assert found.files[Folder.DELAY] == 2


def test_a_hidden_file_that_the_disk_cannot_look_at_costs_only_itself(
    root: Path, spool: Spool, files: WatchedFiles
) -> None:
    for name in ("orders:1", "orders:2"):
        write_message(root / Folder.DELAY / name)
    files.before["status_of"] = _unless_named("orders:1")

    found = Surveyor(spool, time.time_ns).survey({})

    assert found.queues == {ORDERS: QueueSurvey(leased=1)}


def test_a_queue_that_the_disk_cannot_look_at_any_more_costs_only_itself(
    root: Path, spool: Spool, files: WatchedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "SURVEY_PAUSE_FACTOR", 0)
    returns = root / Folder.QUEUES / "returns"
    returns.mkdir()
    os.utime(returns, ns=(LONG_AGO_NS, LONG_AGO_NS))
    left: list[tuple[str, str]] = []
    surveyor = Surveyor(spool, time.time_ns, lambda *told: left.append(told))
    assert surveyor.survey({}).queues.keys() == {ORDERS, "returns"}

    files.before["status_of"] = _unless_named("returns")

    assert surveyor.survey({}).queues.keys() == {ORDERS}
    assert left == [("queues/returns", os.strerror(errno.EIO))]


class UnreadableFiles(Files):
    """The disk cannot read the inode of one file."""

    def attribute(self, file: int | str, name: str) -> bytes | None:
        if str(file).endswith("/broken"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().attribute(file, name)


async def test_the_age_of_a_queue_is_not_that_of_a_file_that_cannot_be_read(
    root: Path, orders: Path
) -> None:
    """Such a file comes first, as if it were from 1970."""
    async with store_on(root, UnreadableFiles()) as store:
        write_message(orders / "broken")

        in_alone, alone = await _ages(root, store)
        await publish(store, b"body")
        in_both, both = await _ages(root, store)

    assert (in_alone, alone) == (1, [None] * 3)
    assert in_both == 2
    assert all(age is not None and age < 3600 for age in both)


async def _ages(root: Path, store: Store) -> tuple[int, list[float | None]]:
    """Return the number of ready messages, and the age of the oldest in everybody's words."""
    told = await store.describe_queue(ORDERS)
    with closing(visit_root(root, UnreadableFiles(), Actor.SERVER)) as spool:
        listed = count_queue(spool, ORDERS)
        seen = Surveyor(spool, time.time_ns).survey({})
    return told.ready, [
        told.oldest_age_seconds,
        listed.oldest_age_seconds,
        seen.queues[ORDERS].age_seconds(seen.time_ns),
    ]


def _unless_named(broken: str) -> Callable[..., None]:
    """Return a call that fails for one name, as the disk does if it cannot read an inode."""

    def look(folder_fd: int, name: str) -> None:
        if name == broken:
            raising(errno.EIO)()

    return look
