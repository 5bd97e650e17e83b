"""What a power cut leaves of a fetch: files whose names are there, and whose contents are not."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pyspark_mq.by_url.intake import Intake
from tests.support.url_site import UrlSite


def start_intake(site: UrlSite) -> Intake:
    return Intake(site.prepare("in"), site.addresses(retry_seconds=0.2), ["orders"])


def cut_off(path: Path) -> None:
    os.truncate(path, 0)


def fill_with_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize("tear", [cut_off, fill_with_zeros])
def test_what_was_torn_before_it_was_synced_is_not_removed_at_the_server(
    site: UrlSite, tear: Callable[[Path], None]
) -> None:
    ids = site.orders.publish_many(["whole", "torn"])
    with closing(start_intake(site)) as died:
        messages = site.orders.receive_many(10, visibility=60)
        died.stage(site.orders.name, messages)
    tear(site.staging / f"in/delay/orders:{ids[1]}")

    with closing(start_intake(site)) as intake:
        assert intake.settle() == 1
        assert site.orders.counts()[1:4] == (0, 1, 0)
        messages[1].release()
        assert intake.fetch(None, None) == 1

    folder = site.staging / "in/queues/orders"
    assert sorted(path.read_text() for path in folder.iterdir()) == ["torn", "whole"]
    assert site.orders.counts()[1:4] == (0, 0, 0)


def test_what_was_damaged_after_it_was_removed_at_the_server_is_not_dropped(site: UrlSite) -> None:
    site.orders.publish_many(["one"])
    with closing(start_intake(site)) as died:
        [message] = site.orders.receive_many(10, visibility=60)
        died.stage(site.orders.name, [message])
    message.ack()
    fill_with_zeros(site.staging / f"in/delay/orders:{message.id}")

    with closing(start_intake(site)) as intake:
        assert intake.settle() == 1

    assert site.staged("in", "queues") == [f"orders/{message.id}"]
