"""Handlers that cannot be called, and handlers that fail in odd ways."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from typing import Any, cast

import pytest

from mq.client import AsyncClient, AsyncMessage, Client, Message
from mq.client.blocking import message as blocking_message
from mq.client.blocking.due_renewals import DueRenewals
from tests.support.faces import Running, counts, new_queue
from tests.support.processes import Server, wait_until
from tests.support.wire import Wire, make_queue


@pytest.mark.parametrize("result", ["coroutine", "generator"])
def test_a_blocking_worker_acknowledges_nothing_that_has_not_run(
    server: Server, result: str
) -> None:
    """A function that hides a coroutine function shows what it is with its first message."""

    async def handle(message: Message) -> None: ...

    with Client(server.url) as mq:
        orders = new_queue(mq)
        orders.publish_many(["one", "two"])
        worker = orders.worker(
            lambda message: handle(message) if result == "coroutine" else (1 for _ in "x"),
        )
        with pytest.raises(TypeError, match=result):
            worker.run(signals=())

        assert counts(orders) == (2, 0, 0)


async def test_an_asynchronous_worker_with_a_plain_function_ends_with_the_error(
    server: Server, wire: Wire
) -> None:
    queue = make_queue(wire)

    async with AsyncClient(server.url) as mq:
        await mq.queue(queue).publish("one")
        worker = mq.queue(queue).worker(lambda message: cast(Any, message.text()))
        with pytest.raises(TypeError, match="str"):
            await worker.run(signals=())

    assert wire.count(queue) == (1, 0)


async def test_a_handler_that_something_cancelled_has_failed_and_the_worker_goes_on(
    hasty_server: Server, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    """The handler awaited what another task cancelled, cancelled itself, or raised the error."""
    done: list[str] = []

    async def handle(message: AsyncMessage) -> None:
        if message.receive_count == 1:
            match message.text():
                case "other":
                    other = asyncio.ensure_future(asyncio.sleep(60))
                    other.cancel()
                    await other
                case "itself":
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()
                    await asyncio.sleep(60)
                case "raised":
                    raise asyncio.CancelledError
        done.append(message.text())

    async with AsyncClient(hasty_server.url) as mq:
        orders = mq.queue(f"cancelled-{uuid.uuid4().hex[:8]}")
        await orders.create()
        bad = ["other", "itself", "raised"]
        good = [f"{number}" for number in range(17)]
        await orders.publish_many(bad + good)
        worker = orders.worker(handle, concurrency=2)
        running = asyncio.create_task(worker.run(signals=()))
        while len(done) < 20 and not running.done():
            await asyncio.sleep(0.01)
        assert not running.done()
        worker.stop()
        await running

        assert sorted(done) == sorted(bad + good)
        assert (await orders.counts())[1:4] == (0, 0, 0)
    assert caplog.text.count("failed") == 3


def test_a_blocking_handler_whose_event_loop_cancelled_something_has_failed(
    hasty_server: Server, work: Callable[..., Running], kind: str
) -> None:
    if kind == "async":
        pytest.skip("a blocking handler")
    done: list[str] = []

    async def wait_for_other() -> None:
        other = asyncio.ensure_future(asyncio.sleep(60))
        other.cancel()
        await other

    def handle(message: Message) -> None:
        if message.receive_count == 1 and message.text() == "bad":
            asyncio.run(wait_for_other())
        done.append(message.text())

    with Client(hasty_server.url) as mq:
        orders = new_queue(mq)
        orders.publish_many(["bad", "good"])
        running = work(orders, handle)
        wait_until(lambda: len(done) == 2, 100)
        running.stop()

        assert running.error is None
        assert sorted(done) == ["bad", "good"]


def test_a_worker_without_a_thread_to_renew_a_lease_gives_the_message_back(
    hasty_server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = DueRenewals()
    monkeypatch.setattr(blocking_message, "due_renewals", due)
    before, handled = threading.stack_size(), list[tuple[str, int | None]]()

    def handle(message: Message) -> None:
        handled.append((message.text(), message.receive_count))
        threading.stack_size(1 << 46 if message.text() == "one" else before)

    with Client(hasty_server.url) as mq:
        orders = new_queue(mq)
        orders.publish("one")
        running = Running(orders.worker(handle))
        try:
            wait_until(lambda: handled)
            wait_until(lambda: due._thread is None)
            orders.publish("two")
            wait_until(lambda: "new thread" in caplog.text)
        finally:
            threading.stack_size(before)
        wait_until(lambda: len(handled) == 2)
        running.stop()

        assert [text for text, _ in handled] == ["one", "two"]
        assert handled[1][1] != 1
        assert running.error is None
        assert counts(orders) == (0, 0, 0)
