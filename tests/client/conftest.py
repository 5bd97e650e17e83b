"""Clients of both kinds; every test here that uses one runs with each, unless it says otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest

from mq.client import Client, Message, Queue
from mq.client.connection import parse_url
from mq.client.messages import Delivery
from mq.client.own_ids import OwnIds
from mq.client.retries import Context
from mq.client.token import Token
from mq.names import MessageId
from tests.support.faces import Loop, Running, new_queue, open_client
from tests.support.played import ORDERS, PlayedClock
from tests.support.processes import Server


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
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients try again almost at once."""
    monkeypatch.setattr("mq.client.retries.CLIENT_BACKOFF_SECONDS", (0.001, 0.01))


@pytest.fixture
def orders(mq: Client) -> Queue:
    """A new queue with a name of its own, on the file's server."""
    return new_queue(mq)


@pytest.fixture
def hasty_orders(hasty_mq: Client) -> Queue:
    return new_queue(hasty_mq)


@pytest.fixture
def work(kind: str) -> Iterator[Callable[..., Running]]:
    """`work(queue, handle)` has `handle` called in a thread for each message."""
    running: list[Running] = []

    def start(
        queue: Queue,
        handle: Callable[[Message], object],
        *,
        until_empty: bool = False,
        **settings: Any,
    ) -> Running:
        async def handle_async(message: Message) -> None:
            await asyncio.to_thread(handle, message)

        chosen = handle if kind == "blocking" else handle_async
        worker = queue.worker(chosen, **settings)
        running.append(Running(worker, until_empty=until_empty))
        return running[-1]

    yield start
    for each in running:
        each.stop()


@pytest.fixture
def clock() -> PlayedClock:
    return PlayedClock()


@pytest.fixture
def context(clock: PlayedClock) -> Context:
    return Context(
        60.0,
        60.0,
        clock,
        Token("secret", None, parse_url("http://localhost", None, None)),
        OwnIds(),
        "http://localhost",
    )


@pytest.fixture
def delivery() -> Delivery:
    """A message that was received at 1000 by `clock`, under a lease of 30 seconds."""
    now = datetime.now(UTC)
    lease = "00c0ffee00c0ffee"
    return Delivery(ORDERS, MessageId("id-1"), b"", "a/b", lease, 1, now, now, 30, 30, 1000.0)
