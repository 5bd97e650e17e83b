"""What a worker does when its client is closed, when it is run again, and when a server is busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from mq.client import AsyncMessage, Client, ClientClosed, Message, Queue, Unavailable
from tests.support.breaking import Breaking
from tests.support.faces import Running, counts, new_queue
from tests.support.processes import Server, wait_until

BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3600\r\nContent-Length: 2\r\n\r\n{}"


def test_a_worker_ends_when_its_client_is_closed(
    server: Server, connect_client: Callable[..., Client], work: Callable[..., Running]
) -> None:
    """It could not acknowledge, and would handle each message again and again."""
    mq, other = connect_client(server.url), connect_client(server.url)
    orders, seen = new_queue(mq), list[Message]()
    running = work(orders, seen.append)
    orders.publish("one")
    wait_until(lambda: seen and counts(orders) == (0, 0, 0))

    mq.close()

    running.wait()
    assert isinstance(running.error, ClientClosed)
    other.queue(orders.name).publish("two")
    # The poll that hung up may have been given it, and the server takes it back.
    wait_until(lambda: counts(other.queue(orders.name)) == (1, 0, 0))


def test_a_worker_of_a_closed_client_receives_nothing(
    server: Server, connect_client: Callable[..., Client], work: Callable[..., Running]
) -> None:
    mq = connect_client(server.url)
    orders = new_queue(mq)
    orders.publish("one")
    mq.close()

    running = work(orders, lambda message: None)

    running.wait()
    assert isinstance(running.error, ClientClosed)


def test_a_worker_that_has_run_says_so(orders: Queue, kind: str) -> None:
    async def handle_async(message: AsyncMessage) -> None: ...

    handle = (lambda message: None) if kind == "blocking" else handle_async
    worker = orders.worker(handle)  # type: ignore[arg-type]
    worker.stop()
    worker.run(signals=())

    again = Running(worker)
    again.wait()
    assert isinstance(again.error, RuntimeError)


@pytest.fixture
def busy() -> Iterator[Breaking]:
    server = Breaking([BUSY])
    yield server
    server.close()


@pytest.mark.parametrize("retry_seconds", [0, 60])
def test_a_worker_asks_a_busy_server_no_sooner_than_it_says(
    busy: Breaking, connect_client: Callable[..., Client], kind: str, retry_seconds: float
) -> None:
    """It may say a longer time than the retry time."""
    mq = connect_client(busy.url, retry_seconds=retry_seconds)
    handle = print if kind == "blocking" else asyncio.sleep
    worker = mq.queue("orders").worker(handle)  # type: ignore[arg-type]
    running = Running(worker)
    wait_until(lambda: busy.requests == 1)

    for _ in range(20):
        with pytest.raises(Unavailable):
            connect_client(busy.url, retry_seconds=0).queue("orders").counts()

    running.stop()
    assert running.error is None
    assert busy.requests == 21
