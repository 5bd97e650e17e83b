"""What a power cut leaves of a fetch: files whose names are there, and whose contents are not."""

from __future__ import annotations

import os
from contextlib import closing

from pyspark_mq.by_url.intake import Intake
from tests.support.url_site import UrlSite


def start_intake(site: UrlSite) -> Intake:
    return Intake(site.prepare("in"), site.addresses(retry_seconds=0.2), ["orders"])


def test_what_was_torn_before_it_was_synced_is_not_removed_at_the_server(site: UrlSite) -> None:
    ids = site.orders.publish_many(["whole", "torn"])
    with closing(start_intake(site)) as died:
        messages = site.orders.receive_many(10, visibility=60)
        died.stage(site.orders.name, messages)
    os.truncate(site.staging / f"in/delay/orders:{ids[1]}", 0)

    with closing(start_intake(site)) as intake:
        assert intake.settle() == 1
        assert site.orders.counts()[1:4] == (0, 1, 0)
        messages[1].release()
        assert intake.fetch(None, None) == 1

    folder = site.staging / "in/queues/orders"
    assert sorted(path.read_text() for path in folder.iterdir()) == ["torn", "whole"]
    assert site.orders.counts()[1:4] == (0, 0, 0)
