"""Clients of both kinds; every test here runs with each, unless it says otherwise."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from mq.client import Client, Message, Queue
from tests.conftest import Server
from tests.contract.client.faces import Loop, open_client


@pytest.fixture
def loop() -> Iterator[Loop]:
    """Where the asynchronous client runs."""
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture(params=["blocking", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def connect_client(kind: str, loop: Loop) -> Iterator[Callable[..., Client]]:
    """`connect_client(url, retry_seconds=1)` makes a client; it is closed when the test ends."""
    with ExitStack() as clients:

        def connect(*given: Any, **settings: Any) -> Client:
            return clients.enter_context(open_client(kind, loop, *given, **settings))

        yield connect


@pytest.fixture
def mq(server: Server, connect_client: Callable[..., Client]) -> Client:
    """A client of the file's server."""
    return connect_client(server.url)


@pytest.fixture
def hasty_mq(hasty_server: Server, connect_client: Callable[..., Client]) -> Client:
    """A client of the server whose leases last 0.3 s."""
    return connect_client(hasty_server.url)


@pytest.fixture
def orders(mq: Client) -> Queue:
    """A new queue with a name of its own, on the file's server."""
    return new_queue(mq)


@pytest.fixture
def hasty_orders(hasty_mq: Client) -> Queue:
    return new_queue(hasty_mq)


def new_queue(mq: Client) -> Queue:
    queue = mq.queue(f"q-{uuid.uuid4().hex[:8]}")
    assert queue.create()
    return queue


def receive_now(queue: Queue, visibility: float | None = None) -> Message:
    """The message that is there."""
    message = queue.receive(visibility=visibility)
    assert message is not None
    return message


def counts(queue: Queue) -> tuple[int, int, int]:
    """Ready, leased and delayed."""
    return queue.counts()[1:4]
