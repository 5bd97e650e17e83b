"""Counting all messages, again and again."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.lifecycle import Actor, Folder
from mq.names import QueueName
from mq.spool.folders import Spool
from mq.spool.root import open_root
from mq.store import survey
from mq.store.survey import Ready, Surveyor
from tests.support.messages import new_id, write_message
from tests.support.stores import ORDERS

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
