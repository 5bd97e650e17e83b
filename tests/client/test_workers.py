"""Workers: what they handle, what they survive, and how they end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mq.client import AsyncClient, AsyncMessage, Client, Message, Queue, QueueNotFound
from tests.support.faces import Running, counts, new_queue
from tests.support.processes import Server, wait_until
from tests.support.wire import Wire, make_queue

SCRIPTS = {
    "blocking": """
import sys, time
from pathlib import Path
from mq.client import Client

url, queue, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])

def handle(message):
    (folder / message.text()).touch()
    while not (folder / "go on").exists():
        time.sleep(0.01)

with Client(url) as mq:
    mq.queue(queue).worker(handle, concurrency=2, visibility=1.5).run()
print("ended")
""",
    "async": """
import asyncio, sys
from pathlib import Path
from mq.client import AsyncClient

url, queue, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])

async def handle(message):
    (folder / message.text()).touch()
    while not (folder / "go on").exists():
        await asyncio.sleep(0.01)

async def main():
    async with AsyncClient(url) as mq:
        await mq.queue(queue).worker(handle, concurrency=2, visibility=1.5).run()
    print("ended")

asyncio.run(main())
""",
}


@pytest.fixture
def start_script(
    kind: str, hasty_server: Server, tmp_path: Path
) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """`start_script(queue)` starts a worker as a process."""
    started: list[subprocess.Popen[str]] = []

    def start(queue: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SCRIPTS[kind], hasty_server.url, queue, str(tmp_path)]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_every_message_is_handled_once(orders: Queue, work: Callable[..., Running]) -> None:
    seen: list[str] = []
    orders.publish_many([f"{number}" for number in range(50)])

    running = work(orders, lambda message: seen.append(message.text()), concurrency=4)

    wait_until(lambda: len(seen) == 50)
    orders.publish("late")
    wait_until(lambda: len(seen) == 51)
    running.stop()
    assert running.error is None
    assert len(set(seen)) == 51
    assert counts(orders) == (0, 0, 0)


def test_a_handler_that_takes_longer_than_the_visibility_has_the_message_to_itself(
    hasty_orders: Queue, work: Callable[..., Running]
) -> None:
    hasty_orders.publish("one")
    seen: list[Message] = []
    go_on = threading.Event()

    def handle(message: Message) -> None:
        seen.append(message)
        go_on.wait(30)

    running = work(hasty_orders, handle, concurrency=2, visibility=1.2)
    wait_until(lambda: seen)
    first = seen[0].visible_at
    wait_until(lambda: (seen[0].visible_at - first).total_seconds() > 1.2)
    go_on.set()
    running.stop()

    assert len(seen) == 1
    assert counts(hasty_orders) == (0, 0, 0)


def test_a_message_whose_handler_raises_comes_back_later(
    hasty_orders: Queue, work: Callable[..., Running], caplog: pytest.LogCaptureFixture
) -> None:
    hasty_orders.publish("one")
    tries: list[int | None] = []

    def handle(message: Message) -> None:
        tries.append(message.receive_count)
        if len(tries) == 1:
            raise ArithmeticError("the till is open")

    running = work(hasty_orders, handle)

    wait_until(lambda: tries)
    wait_until(lambda: "the till is open" in caplog.text)
    assert hasty_orders.receive() is None
    wait_until(lambda: len(tries) == 2)
    running.stop()
    assert tries == [1, 2]
    assert counts(hasty_orders) == (0, 0, 0)


def test_a_handler_may_settle_the_message_itself(
    orders: Queue, work: Callable[..., Running]
) -> None:
    seen: list[str] = []
    orders.publish("one")

    async def release(message: AsyncMessage) -> None:
        await message.release(delay=600)
        seen.append(message.text())

    def handle(message: Message) -> None:
        message.release(delay=600)
        seen.append(message.text())

    worker = orders.worker(handle if isinstance(orders, Queue) else release)
    running = Running(worker)
    wait_until(lambda: seen)
    running.stop()

    assert counts(orders) == (0, 1, 0)


def test_a_worker_outlives_its_server(
    start_server: Callable[..., Server],
    connect_client: Callable[..., Client],
    work: Callable[..., Running],
) -> None:
    server = start_server()
    orders = new_queue(connect_client(server.url))
    seen: list[str] = []
    running = work(orders, lambda message: seen.append(message.text()))
    orders.publish("before")
    wait_until(lambda: seen == ["before"])

    server.kill()
    start_server(f"--port={server.port}", root=server.root)
    orders.publish("after")

    wait_until(lambda: seen == ["before", "after"])
    running.stop()
    assert running.error is None


def test_a_worker_without_its_queue_ends_with_the_error(
    orders: Queue, work: Callable[..., Running]
) -> None:
    seen: list[str] = []
    running = work(orders, lambda message: seen.append(message.text()), concurrency=3)
    orders.publish("one")
    wait_until(lambda: seen)

    orders.delete()

    running.wait()
    assert isinstance(running.error, QueueNotFound)


def test_sigterm_lets_a_worker_finish_what_it_began_and_begin_nothing(
    hasty_orders: Queue, start_script: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    """The handlers take longer than the visibility, from the signal on too."""
    hasty_orders.publish_many(["one", "two", "three"])
    process = start_script(hasty_orders.name)
    wait_until(lambda: (tmp_path / "one").exists() and (tmp_path / "two").exists(), 100)

    process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2)
    assert counts(hasty_orders) == (1, 2, 0)
    (tmp_path / "go on").touch()

    assert process.communicate(timeout=30) == ("ended\n", "")
    assert process.returncode == 0
    assert counts(hasty_orders) == (1, 0, 0)
    assert not (tmp_path / "three").exists()


def test_sigterm_ends_a_worker_that_waits(
    hasty_orders: Queue, start_script: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Sooner than its long poll would."""
    (tmp_path / "go on").touch()
    process = start_script(hasty_orders.name)
    hasty_orders.publish("one")
    wait_until(lambda: counts(hasty_orders) == (0, 0, 0) and (tmp_path / "one").exists(), 100)

    process.terminate()

    assert process.communicate(timeout=10) == ("ended\n", "")
    assert process.returncode == 0
    hasty_orders.publish("two")
    # The poll that hung up may have been given it, and the server takes it back.
    wait_until(lambda: counts(hasty_orders) == (1, 0, 0))


async def test_a_cancelled_worker_releases_what_it_was_at(server: Server, wire: Wire) -> None:
    queue = make_queue(wire)
    began = asyncio.Event()

    async def handle(message: AsyncMessage) -> None:
        began.set()
        await asyncio.Event().wait()

    async with AsyncClient(server.url) as mq:
        await mq.queue(queue).publish("one")
        task = asyncio.create_task(mq.queue(queue).worker(handle, concurrency=2).run())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    # The other poll may have been given what was released, and the server takes that back.
    wait_until(lambda: wire.count(queue) == (1, 0))


async def test_a_cancelled_worker_ends_though_its_handlers_do_not_heed_it(
    server: Server, wire: Wire
) -> None:
    queue = make_queue(wire)
    began = asyncio.Event()

    async def handle(message: AsyncMessage) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ArithmeticError("the till is open") from None

    async with AsyncClient(server.url) as mq:
        await mq.queue(queue).publish("one")
        task = asyncio.create_task(mq.queue(queue).worker(handle).run())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
