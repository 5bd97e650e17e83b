"""A settlement that is broken off while it waits for a renewal leaves the lease renewed."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import cast

import pytest

from mq.client import AsyncMessage, Message
from mq.client.aio.session import AsyncSession
from mq.client.blocking.due_renewals import due_renewals
from mq.client.blocking.session import Session
from mq.client.messages import Delivery
from mq.names import MessageId, QueueName
from tests.support.processes import wait_until


def late_delivery() -> Delivery:
    """A message whose renewal is due."""
    today, now = datetime.now(UTC), time.monotonic()
    return Delivery(
        QueueName("orders"), MessageId("one"), b"", "text/plain", "0f9e8d7c6b5a4938",
        1, today, today, None, lease_seconds=3.0, leased_at=now - 2,
    )  # fmt: skip


class Unanswered:
    """A session whose requests are not answered until `go_on`."""

    context = None

    def __init__(self) -> None:
        self.requests = 0
        self.go_on = threading.Event()

    def run(self, *_: object) -> None:
        self.requests += 1
        assert self.go_on.wait(30)


class StoppedAlone:
    """A session in which a renewal goes on until it is stopped."""

    context = None

    def run(self, operation: object, stop: threading.Event) -> None:
        assert stop.wait(30)


class AsyncUnanswered:
    context = None

    def __init__(self) -> None:
        self.requests = 0
        self.go_on = asyncio.Event()

    async def run(self, *_: object) -> None:
        self.requests += 1
        await self.go_on.wait()


class Interrupted(Exception):
    pass


@pytest.fixture
def interrupt() -> Iterator[Callable[[], None]]:
    """`interrupt()` makes a signal handler raise in the main thread."""

    def handle(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, handle)
    main = threading.main_thread().ident
    assert main is not None
    yield lambda: signal.pthread_kill(main, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_handler_that_raises_costs_no_lease(interrupt: Callable[[], None]) -> None:
    session = Unanswered()
    message = Message(cast(Session, session), late_delivery())

    def interrupt_the_settlement() -> None:
        wait_until(lambda: not message._renewal.is_on)
        interrupt()

    with message:
        wait_until(lambda: session.requests == 1)
        interrupting = threading.Thread(target=interrupt_the_settlement)
        interrupting.start()
        with pytest.raises(Interrupted):
            message.ack()
        interrupting.join()
        wait_until(lambda: session.requests == 2)
        assert message._renewal.is_on
        session.go_on.set()

    assert message.is_settled


def test_a_signal_handler_that_raises_as_a_block_begins_leaves_no_renewal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a block has no end, so nobody would ever get the message while this process lives."""
    message = Message(cast(Session, StoppedAlone()), late_delivery())
    start, started = threading.Thread.start, list[threading.Thread]()

    def start_and_raise(thread: threading.Thread) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        start(thread)
        started.append(thread)
        if is_main:
            raise Interrupted

    monkeypatch.setattr(due_renewals, "_thread", None)  # It may wait for the next one.
    monkeypatch.setattr(threading.Thread, "start", start_and_raise)
    with pytest.raises(Interrupted), message:
        pass

    assert started[0].name == "mq-renewals"
    wait_until(lambda: not any(each.is_alive() for each in started))
    assert not message._renewal.is_on


async def test_a_cancellation_costs_no_lease() -> None:
    session = AsyncUnanswered()
    message = AsyncMessage(cast(AsyncSession, session), late_delivery())

    async def until_sent(requests: int) -> None:
        async with asyncio.timeout(30):
            while session.requests < requests:
                await asyncio.sleep(0)

    async with message:
        await until_sent(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await message.ack()
        await until_sent(2)
        assert message._renewal.is_on
        session.go_on.set()

    assert message.is_settled
