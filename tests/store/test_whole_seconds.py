"""A file system that keeps no more of a time than whole seconds: ext4 with inodes of 128 bytes, as
old ones have them. Two changes within a second leave the same time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.spool.queue import known_settings
from mq.spool.queue.known_settings import KnownSettings
from mq.spool.queue.queue_settings import NO_SETTINGS
from mq.spool.queue.settings_file import change_settings
from mq.spool.root import open_root
from mq.spool.spool import Spool
from mq.store import survey
from mq.store.survey import Surveyor
from tests.support.messages import SECOND_NS, new_id, write_message
from tests.support.processes import wait_until
from tests.support.stores import ORDERS

TICK_NS = SECOND_NS // 20
"""More than the tick of a file system that keeps all of a time."""


@pytest.fixture
def spool(loop_mount: Callable[..., Path]) -> Iterator[Spool]:
    opened, _ = open_root(loop_mount("ext4", 64, "-I", "128") / "root", 0o700, Files())
    with closing(opened):
        yield opened


@pytest.fixture
def orders(spool: Spool) -> Path:
    return spool.root / "queues" / ORDERS


def _begin_a_second(orders: Path) -> None:
    """Make the queue at the beginning of a second, and wait for less than all of it."""
    wait_until(lambda: time.time_ns() % SECOND_NS < SECOND_NS // 4)
    orders.mkdir()
    made_ns = orders.stat().st_ctime_ns
    assert made_ns % SECOND_NS == 0
    wait_until(lambda: time.time_ns() > made_ns + SECOND_NS // 4 + TICK_NS)


def test_what_came_within_the_second_of_a_survey_is_counted(
    spool: Spool, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "SURVEY_PAUSE_FACTOR", 0)
    surveyor = Surveyor(spool, time.time_ns)
    _begin_a_second(orders)
    before = surveyor.survey({}).queues[ORDERS].ready

    write_message(orders / new_id())

    assert [before, surveyor.survey({}).queues[ORDERS].ready] == [0, 1]


def test_settings_that_came_within_the_second_of_a_look_are_seen(
    spool: Spool, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_settings, "SETTINGS_LOOK_SECONDS", 0.0)
    known = KnownSettings(spool.files, spool.queues, print)
    _begin_a_second(orders)
    assert known.of(ORDERS) == NO_SETTINGS

    change_settings(spool, ORDERS, {"paused": "true"})

    assert known.of(ORDERS).paused
