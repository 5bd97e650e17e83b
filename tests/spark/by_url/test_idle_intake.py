"""The way in while nothing comes: a server is asked by a long poll, and not again and again."""

from __future__ import annotations

import threading

import pytest

from mq.client import Message, Queue
from pyspark_mq.by_url.intake import Intake
from tests.support.url_site import UrlSite


@pytest.mark.parametrize("queues", [["returns"], ["orders", "returns"]])
def test_a_fetch_that_finds_nothing_waits_for_its_last_queue(
    site: UrlSite, queues: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_mq.by_url.intake.IDLE_WAIT_SECONDS", 60.0)
    returns = site.mq.queue("returns")
    returns.create()
    intake = Intake(site.prepare("in"), site.addresses(), queues)
    intake.require_queues()

    later = threading.Timer(0.5, returns.publish, ["one"])
    later.start()

    assert intake.fetch(10, None) == 1

    later.join()
    intake.close()


def test_a_fetch_that_has_found_something_does_not_wait_for_more(
    site: UrlSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.publish(1)
    site.mq.queue("returns").create()
    intake = Intake(site.prepare("in"), site.addresses(), ["orders", "returns"])
    intake.require_queues()
    receive, waits = Queue.receive_many, list[float]()

    def counted(queue: Queue, most: int, *, wait: float, visibility: float) -> list[Message]:
        waits.append(wait)
        return receive(queue, most, wait=wait, visibility=visibility)

    monkeypatch.setattr(Queue, "receive_many", counted)

    assert intake.fetch(10, None) == 1

    assert {*waits} == {0.0}
    intake.close()
