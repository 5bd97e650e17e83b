"""The key of a message, wherever it is, and what a listing finds."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from mq.disk.status import SAME_TICK_NS
from mq.ids import id_of_key, order_key
from mq.names import MessageId, QueueName
from mq.spool.queue import listing
from mq.spool.queue.listing import find_key, list_queue
from mq.spool.spool import Spool
from tests.support.messages import seal_of, write_message

ORDERS, OWN = QueueName("orders"), MessageId("own-1")
PUBLISHED_NS = 1_700_000_000 * 10**9
READY, HIDDEN, REMOVED = "queues/orders/own-1", "delay/orders:own-1", "remove/orders:own-1"


def put(spool: Spool, path: str) -> None:
    write_message(spool.root / path, seal=seal_of(b"body", published_ns=PUBLISHED_NS))


@pytest.mark.parametrize("path", [READY, HIDDEN, REMOVED])
def test_a_message_has_the_same_key_wherever_it_is(spool: Spool, path: str) -> None:
    put(spool, path)

    assert find_key(spool, ORDERS, OWN) == order_key(OWN, PUBLISHED_NS)


def test_a_message_that_is_gone_has_none(spool: Spool) -> None:
    assert find_key(spool, ORDERS, OWN) is None


def test_a_message_is_found_though_it_comes_back_between_two_looks(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(spool, HIDDEN)
    looked: list[Any] = []
    look = listing._published_ns

    def look_late(*arguments: Any) -> int | None:
        looked.append(arguments)
        if len(looked) == 2:
            (spool.root / HIDDEN).rename(spool.root / READY)
        return look(*arguments)

    monkeypatch.setattr(listing, "_published_ns", look_late)

    assert find_key(spool, ORDERS, OWN) == order_key(OWN, PUBLISHED_NS)


def test_a_listing_that_takes_long_does_not_make_a_change_just_before_it_old(
    spool: Spool, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes in the tick of that change, after the names were listed, leaves the same mtime."""
    write_message(orders / "a")
    clock_ns = changed_ns = orders.stat().st_mtime_ns
    look = listing.key_of

    def look_long(*arguments: Any) -> str | None:
        nonlocal clock_ns
        clock_ns += 10 * SAME_TICK_NS
        return look(*arguments)

    monkeypatch.setattr(listing, "key_of", look_long)
    monkeypatch.setattr(time, "time_ns", lambda: clock_ns)

    found = list_queue(spool, ORDERS)
    assert found is not None
    assert found.mtime_ns is None

    found = list_queue(spool, ORDERS)
    assert found is not None
    assert found.mtime_ns == changed_ns


def test_what_was_known_and_is_not_there_is_missing_unless_the_disk_does_not_say(
    spool: Spool, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_message(orders / "a")
    write_message(orders / "b")

    found = list_queue(spool, ORDERS, ["b", "c"])
    assert found is not None
    assert [id_of_key(key) for key in found.keys] == ["a"]
    assert found.missing == ["c"]

    look = spool.files.status_of

    def fail(folder_fd: int, name: str) -> os.stat_result:
        if name == "c":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return look(folder_fd, name)

    monkeypatch.setattr(spool.files, "status_of", fail)
    found = list_queue(spool, ORDERS, ["b", "c"])
    assert found is not None
    assert found.missing == []
