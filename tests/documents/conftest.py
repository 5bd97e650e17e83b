"""A server and the queue that all examples use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mq.client import Client, Queue, QueueNotFound
from tests.support.mqctl import without_ours
from tests.support.processes import Server


@pytest.fixture(scope="module")
def server(start_shared: Callable[..., Server]) -> Server:
    return start_shared("--standalone", "--admin=127.0.0.1:0")


@pytest.fixture
def orders(server: Server) -> Iterator[Queue]:
    """The queue that all examples use; it is gone after each test."""
    with Client(server.url) as mq:
        queue = mq.queue("orders")
        queue.create()
        yield queue
        for name in ("orders", "reports", "reports.dead"):
            with suppress(QueueNotFound):
                mq.queue(name).delete()


@pytest.fixture
def environment(server: Server) -> dict[str, str]:
    """An environment with the commands of this Python first in the path."""
    others = without_ours()
    path = f"{Path(sys.executable).parent}:{others['PATH']}"
    return others | {"MQ_URL": server.url, "PATH": path, "PYTHONUNBUFFERED": "1"}
