"""Both clients behind one face, so that a test says once what holds for both."""

from __future__ import annotations

import asyncio
import inspect
import threading
import uuid
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, cast

from mq.client import (
    AsyncClient,
    AsyncMessage,
    AsyncQueue,
    AsyncWorker,
    Client,
    Message,
    Queue,
    Worker,
)
from mq.client.aio.message import AsyncRenewal
from tests.support.processes import wait_until

_ASYNCHRONOUS = (AsyncClient, AsyncQueue, AsyncMessage, AsyncWorker, AsyncRenewal)


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Blocking:
    """An object of the asynchronous client that is used like that of the blocking one."""

    def __init__(self, one: Any, loop: Loop) -> None:
        self._one = one
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return self._seen(getattr(self._one, name))

    def _seen(self, value: Any) -> Any:
        if isinstance(value, _ASYNCHRONOUS):
            return Blocking(value, self._loop)
        if isinstance(value, list):
            return [self._seen(each) for each in value]
        if isinstance(value, AsyncIterator):
            return self._each_of(value)
        if inspect.ismethod(value):
            return lambda *given, **named: self._seen(self._loop.run(called(value, given, named)))
        return value

    def _each_of(self, values: AsyncIterator[Any]) -> Iterator[Any]:
        async def following() -> Any:
            return await anext(values, None)

        while (value := self._loop.run(following())) is not None:
            yield self._seen(value)

    def __enter__(self) -> Any:
        return self._seen(self._loop.run(self._one.__aenter__()))

    def __exit__(self, *error: Any) -> Any:
        return self._loop.run(self._one.__aexit__(*error))


async def called(method: Any, given: Any, named: Any) -> Any:
    """Return what a method returns. It is called on the loop, even if it is not a coroutine."""
    result = method(*given, **named)
    return await result if inspect.isawaitable(result) else result


def open_client(kind: str, loop: Loop, *given: Any, **settings: Any) -> Client:
    """Open a client; `kind` is "blocking" or "async"."""
    if kind == "blocking":
        return Client(*given, **settings)
    return cast(Client, Blocking(AsyncClient(*given, **settings), loop))


def new_queue(mq: Client) -> Queue:
    queue = mq.queue(f"q-{uuid.uuid4().hex[:8]}")
    assert queue.create()
    return queue


def receive_now(queue: Queue, visibility: float | None = None) -> Message:
    """Receive the message that is there."""
    message = queue.receive(visibility=visibility)
    assert message is not None
    return message


def wait_for_renewals(message: Message, count: int) -> None:
    """Wait until the lease has been renewed this often."""
    for _ in range(count):
        before = message.visible_at
        wait_until(lambda: message.visible_at > before)


def counts(queue: Queue) -> tuple[int, int, int]:
    """Return the numbers of ready, leased and delayed messages."""
    return queue.counts()[1:4]


class Running:
    """A worker at work in a thread, or on the event loop."""

    def __init__(self, worker: Worker, *, until_empty: bool = False) -> None:
        self._worker = worker
        self._work = worker.run_until_empty if until_empty else worker.run
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = error

    def wait(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()

    def tell_to_stop(self) -> None:
        self._worker.stop()

    def stop(self) -> None:
        self.tell_to_stop()
        self.wait()
