"""What a power cut leaves of a fetch: files whose names are there, and whose contents are not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.spool.message.seal import SEAL_ATTRIBUTE
from pyspark_mq.by_url.intake import Intake
from tests.support.url_site import UrlSite


def cut_off(path: Path) -> None:
    os.truncate(path, 0)


def fill_with_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def lose_seal(path: Path) -> None:
    """A copy without extended attributes does that."""
    os.removexattr(path, SEAL_ATTRIBUTE)


@pytest.mark.parametrize("tear", [cut_off, fill_with_zeros, lose_seal])
def test_what_was_torn_before_it_was_synced_is_not_removed_at_the_server(
    site: UrlSite, start_intake: Callable[[], Intake], tear: Callable[[Path], None]
) -> None:
    ids = site.orders.publish_many(["whole", "torn"])
    messages = site.orders.receive_many(10, visibility=60)
    start_intake().stage(site.orders.name, messages)
    tear(site.staging / f"in/delay/orders:{ids[1]}")

    intake = start_intake()
    assert intake.settle() == 1
    assert site.orders.counts()[1:4] == (0, 1, 0)
    messages[1].release()
    assert intake.fetch(None, None) == 1

    folder = site.staging / "in/queues/orders"
    assert sorted(path.read_text() for path in folder.iterdir()) == ["torn", "whole"]
    assert site.orders.counts()[1:4] == (0, 0, 0)


@pytest.mark.parametrize("damage", [fill_with_zeros, lose_seal])
def test_what_was_damaged_after_it_was_removed_at_the_server_is_not_dropped(
    site: UrlSite, start_intake: Callable[[], Intake], damage: Callable[[Path], None]
) -> None:
    site.orders.publish_many(["one"])
    [message] = site.orders.receive_many(10, visibility=60)
    start_intake().stage(site.orders.name, [message])
    message.ack()
    damage(site.staging / f"in/delay/orders:{message.id}")

    assert start_intake().settle() == 1

    assert site.staged("in", "queues") == [f"orders/{message.id}"]
