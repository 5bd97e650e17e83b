"""A purge by the folder leaves a queue as old as it was, and to Spark what that had claimed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.lifecycle import Actor
from mq.names import MessageId
from mq.spool.queue import purging
from mq.spool.queue.queue_birth import MADE_ATTRIBUTE, queue_made_ns
from mq.spool.queue.queues import begin_deletion, finish_deletion
from mq.spool.root import open_root, visit_root
from mq.spool.spark.claiming import Taken
from mq.spool.spool import Spool
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in
from tests.support.purges import MESSAGES, ORDERS, fill, purge
from tests.support.spark_files import start_group


@pytest.fixture(autouse=True)
def long_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "LONG_QUEUE", 1)


@pytest.fixture
def spool(root: Path) -> Iterator[Spool]:
    with closing(open_root(root, 0o700, Files())[0]) as spool:
        yield spool


@pytest.fixture
def orders(spool: Spool) -> Path:
    return fill(spool.root)


def test_a_queue_is_as_old_as_before(spool: Spool, orders: Path) -> None:
    before = queue_made_ns(spool, ORDERS)
    assert before is not None

    for _ in range(2):
        fill(spool.root)
        purge(spool)
        assert queue_made_ns(spool, ORDERS) == before


def test_what_spark_had_claimed_before_is_given_back(spool: Spool, orders: Path) -> None:
    with closing(visit_root(spool.root, Files(), Actor.SPARK)) as spark:
        group = start_group(spark)
        assert group.begin(1, 1).take(ORDERS, MessageId("0"), lambda _: 0) is Taken.YES

        assert purge(spool) == MESSAGES - 1

        assert group.give_back_open() == 1
    assert names_in(orders) == ["0"]


def test_a_queue_that_is_made_again_is_younger(spool: Spool, orders: Path) -> None:
    before = queue_made_ns(spool, ORDERS)
    assert before is not None
    purge(spool)
    assert begin_deletion(spool, ORDERS)
    finish_deletion(spool, ORDERS)
    assert queue_made_ns(spool, ORDERS) is None

    orders.mkdir()

    assert (queue_made_ns(spool, ORDERS) or 0) > before


@pytest.mark.parametrize("value", [b"yesterday", b"1" * 700])
def test_an_attribute_that_is_not_a_time_says_nothing(
    spool: Spool, orders: Path, value: bytes
) -> None:
    before = queue_made_ns(spool, ORDERS)

    os.setxattr(orders, MADE_ATTRIBUTE, value)

    assert queue_made_ns(spool, ORDERS) == before


def test_a_claim_that_is_taking_a_message_is_waited_for(
    spool: Spool, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rename comes when the purge would have the folder."""
    monkeypatch.setattr(purging, "PURGE_LOCK_SECONDS", 0.01)
    files, refused = WatchedFiles(), list[OSError]()

    def purge_meanwhile(*_: object) -> None:
        del files.before["rename"]
        try:
            purge(spool)
        except BlockingIOError as error:
            refused.append(error)

    with closing(visit_root(spool.root, files, Actor.SPARK)) as spark:
        claim = start_group(spark).begin(1, 1)
        files.before["rename"] = purge_meanwhile
        assert claim.take(ORDERS, MessageId("0"), lambda _: 0) is Taken.YES

    assert len(refused) == 1
    assert purge(spool) == MESSAGES - 1


def test_a_claim_finds_nothing_in_a_folder_that_was_taken(spool: Spool, orders: Path) -> None:
    with closing(visit_root(spool.root, Files(), Actor.SPARK)) as spark:
        claim = start_group(spark).begin(1, 1)
        spark.queues.open(ORDERS)
        purge(spool)

        assert claim.take(ORDERS, MessageId("0"), lambda _: 0) is Taken.LOST
