"""The recipes of docs/backup.md that no other test runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from mq.client import Client
from tests.support.processes import Server
from tests.support.sources import REPOSITORY

DOCUMENT = (REPOSITORY / "docs" / "backup.md").read_text()
BRING_BACK = DOCUMENT.partition("<!-- bring back -->\n```sh\n")[2].partition("```")[0]


@pytest.mark.parametrize("mistake", ["delete", "purge"])
@pytest.mark.parametrize("count", [5, 1500], ids=["short", "long"])
def test_a_queue_that_was_deleted_or_purged_by_mistake_comes_back(
    start_server: Callable[..., Server], mistake: str, count: int
) -> None:
    """A long queue is purged by its folder. No reaper runs here."""
    server = start_server()
    bodies = [f"{number:04}" for number in range(count)]
    with Client(server.url) as mq:
        orders = mq.queue("orders")
        orders.create()
        orders.publish_many(bodies)
        assert orders.receive() is not None
        orders.publish("later", delay=3600)

        assert getattr(orders, mistake)() in (None, count + 1)
        orders.create()
        subprocess.run(["sh", "-c", BRING_BACK], cwd=server.root, check=True)

        found = []
        while messages := orders.receive_many(1000):
            found += [message.text() for message in messages]
    assert found == [*bodies, "later"]
