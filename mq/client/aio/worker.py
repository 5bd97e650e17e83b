"""`AsyncWorker`: receives messages and has them handled, until it is stopped."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count

from mq.client import arguments, operations
from mq.client.aio.message import AsyncMessage, acknowledge_soon
from mq.client.aio.session import AsyncSession
from mq.client.errors import ClientError
from mq.client.handlers import require_awaitable, wrong_result
from mq.client.messages import Delivery
from mq.client.retries import handling_backoff_seconds
from mq.client.signals import stopping_on
from mq.client.wire import Operation, Stopped
from mq.config import WORKER_SHORT_WAIT_SECONDS, WORKER_STOP_SECONDS, WORKER_WAIT_SECONDS
from mq.names import QueueName

log = logging.getLogger("mq.client")

AsyncHandler = Callable[[AsyncMessage], Awaitable[object]]
_NextMessage = Callable[[], Awaitable[AsyncMessage | None]]


class AsyncWorker:
    """Handles messages in `concurrency` tasks, each from the first of `queues` that has one.

    A message is acknowledged when `handle` returns. If it raises an Exception, that is logged and
    the message returns after a second, and after twice that time with each further receive, up to
    five minutes. While `handle` runs the lease is renewed; if it is lost, `handle` is cancelled.
    While the server cannot be reached the worker keeps trying. A worker runs once.
    """

    def __init__(
        self,
        session: AsyncSession,
        queues: Sequence[QueueName],
        handle: AsyncHandler,
        concurrency: int,
        visibility: float | None,
        *,
        limit: int | None = None,
    ) -> None:
        arguments.count("concurrency", concurrency)
        if concurrency < 1:
            raise ValueError("concurrency: a worker has at least one task")
        arguments.limit("max", limit)
        require_awaitable(handle)
        self._session = session
        self._queues = queues
        self._handle = handle
        self._concurrency = concurrency
        self._visibility = visibility
        # A task takes a turn before it looks for a message, and keeps it until it has one.
        self._turns = count(1) if limit is None else iter(range(1, limit + 1))
        can_hang_up = session.address.can_hang_up
        self._wait_seconds = WORKER_WAIT_SECONDS if can_hang_up else WORKER_SHORT_WAIT_SECONDS
        self._stopping = asyncio.Event()
        self._ending = asyncio.Event()
        self._at_work: set[asyncio.Task[None]] = set()
        self._busy: set[asyncio.Task[None]] = set()
        self._has_run = self._is_given_up = False
        # These connections are separate, so that stopping ends the waiting of these requests and no
        # others.
        self._polls = session.connections()
        self._receiving: set[asyncio.Task[object]] = set()

    async def run(
        self, signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT)
    ) -> None:
        """Work until `stop` is called, `max` messages were received or, in the main thread, one of
        `signals` comes. One that comes half a second later has its usual effect. On return every
        message that was begun has been handled. If this task is cancelled, the handlers are
        cancelled too, and their messages released.

        Raises errors that waiting does not mend: QueueNotFound, Unauthorized, Forbidden,
        BadRequest, UnexpectedAnswer; and ClientClosed if the client is closed before.
        """
        await self._run(self._next, signals)

    async def run_until_empty(
        self, signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT)
    ) -> None:
        """Work as `run` does, but no longer than until no message is ready and none of this
        worker's is being handled, which might publish more. Messages that are leased or delayed,
        and those of a paused queue, are not waited for.

        Raises NoAnswer and Unavailable too, after the client's retry time.
        """
        await self._run(self._next_ready, signals)

    async def _run(self, next_message: _NextMessage, signals: Iterable[signal.Signals]) -> None:
        self._begin()
        loop = asyncio.get_running_loop()
        with stopping_on(signals, lambda: loop.call_soon_threadsafe(self.stop)):
            tasks = [
                asyncio.create_task(self._work(next_message)) for _ in range(self._concurrency)
            ]
            self._at_work, self._busy = set(tasks), set(tasks)
            for task in tasks:
                task.add_done_callback(self._note_end)
            try:
                await self._stopping.wait()
                await asyncio.wait(tasks, timeout=WORKER_STOP_SECONDS)
                self._cut_off()
                await asyncio.wait(tasks)
            finally:
                results = await self._end(tasks)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _begin(self) -> None:
        if self._has_run:
            raise RuntimeError("this worker has run already; make another one")
        self._has_run = True

    def stop(self) -> None:
        """Receive no more messages. Call it in the event loop's thread. `run` returns when the
        messages that were begun have been handled."""
        self._stopping.set()
        self._ending.set()
        self._polls.hang_up()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """Stop all tasks after one that failed, and the worker after the last one."""
        self._rest(task)
        self._at_work.discard(task)
        if not self._at_work or task.cancelled() or task.exception() is not None:
            self.stop()

    def _cut_off(self) -> None:
        """Cut off the requests that still wait for an answer."""
        for task in self._receiving:
            task.cancel()

    async def _end(self, tasks: list[asyncio.Task[None]]) -> list[BaseException | None]:
        """Cancel the tasks that still run. Messages that the server has already delivered are
        released."""
        self._is_given_up = True
        self.stop()
        for task in tasks:
            # One that was cancelled together with `run` is releasing its message.
            if task not in self._receiving and not task.cancelling():
                task.cancel()
        try:
            await asyncio.wait(tasks, timeout=WORKER_STOP_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            await self._polls.close()
        return results

    async def _work(self, next_message: _NextMessage) -> None:
        while next(self._turns, None) and (message := await next_message()) is not None:
            if self._is_given_up:
                await message.give_back()
            else:
                await self._settle(message)

    async def _next(self) -> AsyncMessage | None:
        """Return the next message, or None once the worker is stopped."""
        message = None
        while message is None and not self._stopping.is_set():
            message = await self._receive(
                operations.poll(
                    self._session.context, self._queues, self._wait_seconds, self._visibility
                )
            )
        return message

    async def _next_ready(self) -> AsyncMessage | None:
        """Return the next message, or None if there is none and no task is busy any more, or the
        worker is stopped."""
        if self._stopping.is_set():
            return None
        this = asyncio.current_task()
        assert this is not None
        context, queues, visibility = self._session.context, self._queues, self._visibility
        message = await self._receive(operations.receive(context, queues, 0.0, visibility))
        if message is None:
            self._rest(this)
        while message is None and not self._ending.is_set():
            message = await self._receive(
                operations.look_again(context, queues, visibility, self._concurrency)
            )
        if message is not None:
            self._busy.add(this)
        return message

    def _rest(self, task: asyncio.Task[None]) -> None:
        """Note that a task has nothing to do. What others have published before they had nothing
        to do was ready when they looked last: when the last one rests, all is done. One that is
        just looking again goes on with what it finds."""
        self._busy.discard(task)
        if not self._busy:
            self._ending.set()

    async def _receive(self, poll: Operation[Delivery | None]) -> AsyncMessage | None:
        """Receive a message. Returns None if there is none now, or the server cannot be reached."""
        task = asyncio.current_task()
        assert task is not None
        self._receiving.add(task)
        try:
            found = await self._session.run(poll, self._ending, self._polls)
            return None if found is None else AsyncMessage(self._session, found)
        except Stopped:
            pass
        except asyncio.CancelledError:
            if not self._stopping.is_set() or task.uncancel():
                raise
        except ClientError:
            if not self._stopping.is_set():
                raise
        finally:
            self._receiving.discard(task)
        return None

    async def _settle(self, message: AsyncMessage) -> None:
        try:
            async with message:
                await self._try(message)
        except ClientError as error:
            log.warning(
                "message %s of queue %s was handled but may come again: %s",
                message.id, message.queue, error,
            )  # fmt: skip

    async def _try(self, message: AsyncMessage) -> None:
        try:
            result: object = self._handle(message)
            is_awaitable = inspect.isawaitable(result)
            if inspect.isawaitable(result):
                await _handled(message, result)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            log.exception("message %s of queue %s failed", message.id, message.queue)
            if message.is_to_settle:
                await message.give_back(handling_backoff_seconds(message.receive_count))
        else:
            if not is_awaitable:
                raise wrong_result(result)


async def _handled(message: AsyncMessage, result: Awaitable[object]) -> None:
    """Wait for a handler. It runs in a task of its own, because one that cancels its task must not
    end the worker."""
    handling = asyncio.ensure_future(result)
    try:
        await handling
    except asyncio.CancelledError:
        has_returned = not handling.cancelled() and handling.done() and not handling.exception()
        if has_returned and message.is_to_settle and message.lost is None:
            # This task was cancelled after the handler's end, and before its own next step.
            await acknowledge_soon(message)
        raise


def _is_cancelled() -> bool:
    """Return whether this task itself is cancelled, and not only something that a handler waited
    for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
