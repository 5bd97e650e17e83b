"""A worker that is stopped handles what the server has delivered, and begins nothing else."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mq.client import AsyncClient, AsyncMessage, Client, Message, Queue
from tests.support.certificates import make_certificate
from tests.support.faces import Running, counts, new_queue
from tests.support.processes import Server, wait_until
from tests.support.proxy import LateProxy
from tests.support.wire import Wire, make_queue

STOPS = {"http": 20, "unix": 4, "https": 4}
"""Each takes up to two seconds over TLS and unix sockets."""


@pytest.fixture
def late(server: Server) -> Iterator[LateProxy]:
    proxy = LateProxy(server.port)
    yield proxy
    proxy.close()


def test_an_answer_on_its_way_to_a_worker_that_is_stopped_is_handled(
    late: LateProxy,
    server: Server,
    connect_client: Callable[..., Client],
    work: Callable[..., Running],
) -> None:
    orders = new_queue(connect_client(server.url))
    handled: list[str] = []
    behind = connect_client(late.url).queue(orders.name)
    running = work(behind, lambda message: handled.append(message.text()))
    orders.publish("one")
    assert late.holds.wait(30)

    running.stop()

    assert handled == ["one"]
    assert counts(orders) == (0, 0, 0)


async def test_an_answer_on_its_way_to_a_worker_that_is_cancelled_is_given_back(
    late: LateProxy, server: Server
) -> None:
    async def handle(message: AsyncMessage) -> None:
        raise AssertionError("it was cancelled before")

    async with AsyncClient(server.url) as mq, AsyncClient(late.url) as behind:
        orders = mq.queue("cancelled-on-its-way")
        await orders.create()
        task = asyncio.create_task(behind.queue(orders.name).worker(handle).run())
        await orders.publish("one")
        await asyncio.to_thread(late.holds.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert (await orders.counts())[1:4] == (1, 0, 0)


@pytest.mark.parametrize("steps", range(6))
async def test_what_a_worker_has_handled_is_acknowledged_though_it_is_cancelled(
    server: Server, wire: Wire, steps: int
) -> None:
    """It is cancelled this many steps of the event loop after its handler."""
    queue = make_queue(wire)
    wire.publish(queue)
    is_handled = asyncio.Event()

    async def handle(message: AsyncMessage) -> None:
        is_handled.set()

    async with AsyncClient(server.url) as mq:
        task = asyncio.create_task(mq.queue(queue).worker(handle).run())
        await is_handled.wait()
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert wire.count(queue) == (0, 0)


async def test_a_handler_that_returns_as_its_worker_is_cancelled_has_handled_its_message(
    server: Server, wire: Wire
) -> None:
    queue = make_queue(wire)
    wire.publish(queue)

    async def handle(message: AsyncMessage) -> None:
        task.cancel()

    async with AsyncClient(server.url) as mq:
        task = asyncio.create_task(mq.queue(queue).worker(handle).run())
        with pytest.raises(asyncio.CancelledError):
            await task

    assert wire.count(queue) == (0, 0)


@pytest.mark.parametrize("exits", [False, True])
def test_the_end_of_an_event_loop_releases_what_its_worker_was_at(
    server: Server, wire: Wire, exits: bool
) -> None:
    """asyncio.run() then cancels all tasks together, those that renew leases too."""
    queue, mq = make_queue(wire), AsyncClient(server.url)
    for _ in range(3):
        wire.publish(queue)
    begun: list[str] = []

    async def handle(message: AsyncMessage) -> None:
        begun.append(message.id)
        if exits and len(begun) == 3:
            raise SystemExit
        await asyncio.Event().wait()

    async def program() -> None:
        working = asyncio.create_task(mq.queue(queue).worker(handle, concurrency=3).run())
        while len(begun) < 3 or exits:
            await asyncio.sleep(0.01)
        assert not working.done()

    loop = asyncio.new_event_loop()
    with suppress(SystemExit):
        loop.run_until_complete(program())
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(mq.close())
    loop.close()

    assert len(begun) == 3
    assert wire.count(queue) == (3, 0)


@pytest.fixture(params=STOPS)
def once(
    request: pytest.FixtureRequest,
    start_server: Callable[..., Server],
    connect_client: Callable[..., Client],
    tmp_path: Path,
) -> Queue:
    """A queue whose messages are delivered once, with a lease of ten minutes."""
    flags = ["--max-receives=1", "--visibility=600"]
    if request.param == "unix":
        path = tmp_path / "mq.sock"
        start_server(f"--socket={path}", *flags)
        return new_queue(connect_client(socket=path))
    if request.param == "http":
        return new_queue(connect_client(start_server(*flags).url))
    certificate = make_certificate(tmp_path, "localhost")
    server = start_server(*certificate.flags(), *flags)
    url = server.url.replace("http:", "https:")
    return new_queue(connect_client(url, ca_file=certificate.cert))


def test_stops_at_random_moments_leave_no_message_that_nobody_handled(
    once: Queue, work: Callable[..., Running], request: pytest.FixtureRequest
) -> None:
    """Every message that was delivered was handled: none is leased, none a dead letter."""
    published: list[str] = []
    handled: list[str] = []
    stop = threading.Event()

    def publish() -> None:
        while not stop.wait(random.uniform(0, 0.004)):
            published.append(once.publish(f"{len(published)}"))

    def handle(message: Message) -> None:
        handled.append(message.id)

    publisher = threading.Thread(target=publish)
    publisher.start()
    for _ in range(STOPS[request.node.callspec.params["once"]]):
        before = len(handled)
        running = work(once, handle, concurrency=3)
        wait_until(lambda: len(handled) > before, 100)
        stop.wait(random.uniform(0, 0.02))
        running.stop()
        assert running.error is None
        wait_until(lambda: counts(once)[1] == 0)
    stop.set()
    publisher.join()

    assert len(handled) == len(set(handled))
    assert counts(once) == (len(published) - len(handled), 0, 0)


def test_a_worker_that_is_stopped_by_its_handler_begins_nothing_more(
    orders: Queue, kind: str
) -> None:
    orders.publish_many([f"{number}" for number in range(20)])
    handled: list[str] = []

    def handle(message: Message) -> None:
        handled.append(message.text())
        worker.stop()

    async def handle_async(message: AsyncMessage) -> None:
        handled.append(message.text())
        worker._one.stop()  # type: ignore[attr-defined]

    worker = orders.worker(handle if kind == "blocking" else handle_async)  # type: ignore[arg-type]
    running = Running(worker)
    running.wait()

    assert running.error is None
    assert handled == ["0"]
    assert counts(orders) == (19, 0, 0)


def test_a_worker_that_was_stopped_before_it_ran_handles_nothing(
    orders: Queue, work: Callable[..., Running]
) -> None:
    orders.publish("one")
    seen: list[Message] = []

    async def handle_async(message: AsyncMessage) -> None: ...

    worker = orders.worker(seen.append if isinstance(orders, Queue) else handle_async)
    worker.stop()
    worker.run(signals=())

    assert counts(orders) == (1, 0, 0)
