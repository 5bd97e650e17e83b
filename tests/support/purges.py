"""Purges of the queue `orders` by its folder."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from mq.lifecycle import PurgeScope
from mq.names import QueueName
from mq.spool.queue.purging import Purge
from mq.spool.spool import Spool
from tests.support.messages import write_message

ORDERS = QueueName("orders")
MESSAGES = 4


def fill(root: Path) -> Path:
    """Put `MESSAGES` messages into the queue. Return its folder, which is made."""
    folder = root / "queues" / ORDERS
    folder.mkdir(exist_ok=True)
    for number in range(MESSAGES):
        write_message(folder / str(number))
    return folder


def purge(
    spool: Spool,
    scope: PurgeScope = PurgeScope.ALL,
    reported: list[str] | None = None,
) -> int:
    """Purge the queue to the end, and add what is reported to `reported`. Return how many messages
    were removed."""
    told = [] if reported is None else reported
    with closing(Purge(spool, ORDERS, scope, lambda name, _: told.append(name))) as running:
        running.begin()
        while running.go_on():
            pass
    return running.removed
