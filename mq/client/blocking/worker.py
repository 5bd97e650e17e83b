"""`Worker`: receives messages and has them handled, until it is stopped."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from itertools import count
from queue import Empty, SimpleQueue

from mq.client import arguments, operations
from mq.client.blocking.message import Message
from mq.client.blocking.session import Session
from mq.client.errors import ClientError
from mq.client.handlers import is_undone, require_plain, wrong_result
from mq.client.messages import Delivery
from mq.client.retries import handling_backoff_seconds
from mq.client.signals import HEED_SECONDS, stopping_on
from mq.client.wire import Operation, Stopped
from mq.config import WORKER_SHORT_WAIT_SECONDS, WORKER_STOP_SECONDS, WORKER_WAIT_SECONDS
from mq.names import QueueName

log = logging.getLogger("mq.client")

Handler = Callable[[Message], object]
_NextMessage = Callable[[], Message | None]


class Worker:
    """Handles messages in `concurrency` threads, each from the first of `queues` that has one.

    A message is acknowledged when `handle` returns. If it raises an Exception, that is logged and
    the message returns after a second, and after twice that time with each further receive, up to
    five minutes. While `handle` runs the lease is renewed. While the server cannot be reached the
    worker keeps trying. A worker runs once.
    """

    def __init__(
        self,
        session: Session,
        queues: Sequence[QueueName],
        handle: Handler,
        concurrency: int,
        visibility: float | None,
        *,
        limit: int | None = None,
    ) -> None:
        arguments.count("concurrency", concurrency)
        if concurrency < 1:
            raise ValueError("concurrency: a worker has at least one thread")
        arguments.limit("max", limit)
        require_plain(handle)
        self._session = session
        self._queues = queues
        self._handle = handle
        self._concurrency = concurrency
        self._visibility = visibility
        # A thread takes a turn before it looks for a message, and keeps it until it has one.
        self._turns = count(1) if limit is None else iter(range(1, limit + 1))
        can_hang_up = session.address.can_hang_up
        self._wait_seconds = WORKER_WAIT_SECONDS if can_hang_up else WORKER_SHORT_WAIT_SECONDS
        self._has_run = self._is_stopped = False
        # An Event has a lock that the thread which a signal interrupts may hold; `put` has none.
        self._news: SimpleQueue[None] = SimpleQueue()
        self._ending = threading.Event()
        self._at_work: set[threading.Thread] = set()
        self._busy: set[threading.Thread] = set()
        # These connections are separate, so that stopping ends the waiting of these requests and no
        # others.
        self._polls = session.connections()
        self._failure: BaseException | None = None

    def run(self, signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> None:
        """Work until `stop` is called, `max` messages were received or, in the main thread, one of
        `signals` comes. One that comes half a second later has its usual effect. On return every
        message that was begun has been handled.

        Raises errors that waiting does not mend: QueueNotFound, Unauthorized, Forbidden,
        BadRequest, UnexpectedAnswer; and ClientClosed if the client is closed before.
        """
        self._run(self._next, signals)

    def run_until_empty(
        self, signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT)
    ) -> None:
        """Work as `run` does, but no longer than until no message is ready and none of this
        worker's is being handled, which might publish more. Messages that are leased or delayed,
        and those of a paused queue, are not waited for.

        Raises NoAnswer and Unavailable too, after the client's retry time.
        """
        self._run(self._next_ready, signals)

    def _run(self, next_message: _NextMessage, signals: Iterable[signal.Signals]) -> None:
        threads = [
            threading.Thread(
                target=self._work, args=(next_message,), name=f"mq-worker-{number}", daemon=True
            )
            for number in range(self._concurrency)
        ]
        self._begin()
        self._at_work, self._busy = set(threads), set(threads)
        with stopping_on(signals, self.stop):
            try:
                for thread in threads:
                    thread.start()
                self._await_end()
                self._let_finish(threads)
            finally:
                self._is_stopped = True
                self._ending.set()
                self._polls.close()
        if self._failure is not None:
            raise self._failure

    def _begin(self) -> None:
        if self._has_run:
            raise RuntimeError("this worker has run already; make another one")
        self._has_run = True

    def stop(self) -> None:
        """Receive no more messages. Any thread or signal handler may call it. `run` returns when
        the messages that were begun have been handled."""
        self._is_stopped = True
        self._news.put(None)

    def _await_end(self) -> None:
        """Wait until `stop` is called or all threads have ended. A signal that comes while the
        process is stopped (SIGSTOP) may go to any of its threads, and wakes no other; so this looks
        by itself too."""
        while self._at_work and not self._is_stopped:
            with suppress(Empty):
                self._news.get(timeout=HEED_SECONDS)

    def _let_finish(self, threads: list[threading.Thread]) -> None:
        """Wait for the threads. Messages that the server has already delivered are among those that
        were begun."""
        self._ending.set()
        self._polls.hang_up()
        cut_off_at = time.monotonic() + WORKER_STOP_SECONDS
        for thread in threads:
            thread.join(max(cut_off_at - time.monotonic(), 0.0))
        self._polls.close()
        for thread in threads:
            thread.join()

    def _work(self, next_message: _NextMessage) -> None:
        this = threading.current_thread()
        try:
            while next(self._turns, None) and (message := next_message()) is not None:
                self._settle(message)
        except BaseException as error:
            self._failure = self._failure or error
            self.stop()
        finally:
            self._rest(this)
            self._at_work.discard(this)
            self._news.put(None)

    def _next(self) -> Message | None:
        """Return the next message, or None once the worker is stopped."""
        message = None
        while message is None and not self._is_stopped:
            message = self._receive(
                operations.poll(
                    self._session.context, self._queues, self._wait_seconds, self._visibility
                )
            )
        return message

    def _next_ready(self) -> Message | None:
        """Return the next message, or None if there is none and no thread is busy any more, or the
        worker is stopped."""
        if self._is_stopped:
            return None
        this = threading.current_thread()
        context, queues, visibility = self._session.context, self._queues, self._visibility
        message = self._receive(operations.receive(context, queues, 0.0, visibility))
        if message is None:
            self._rest(this)
        while message is None and not self._ending.is_set():
            message = self._receive(
                operations.look_again(context, queues, visibility, self._concurrency)
            )
        if message is not None:
            self._busy.add(this)
        return message

    def _rest(self, thread: threading.Thread) -> None:
        """Note that a thread has nothing to do. What others have published before they had nothing
        to do was ready when they looked last: when the last one rests, all is done. One that is
        just looking again goes on with what it finds."""
        self._busy.discard(thread)
        if not self._busy:
            self._ending.set()

    def _receive(self, poll: Operation[Delivery | None]) -> Message | None:
        """Receive a message. Returns None if there is none now, or the server cannot be reached."""
        try:
            found = self._session.run(poll, self._ending, self._polls)
        except Stopped:
            return None
        except ClientError:
            if self._is_stopped:
                return None
            raise
        return None if found is None else Message(self._session, found)

    def _settle(self, message: Message) -> None:
        try:
            with ExitStack() as block:
                if self._has_begun(message, block):
                    self._try(message)
        except ClientError as error:
            log.warning(
                "message %s of queue %s was handled but may come again: %s",
                message.id, message.queue, error,
            )  # fmt: skip

    def _has_begun(self, message: Message, block: ExitStack) -> bool:
        """Begin the message's block. If the system has no thread that would renew its lease, the
        message is given back instead, and this thread waits as long: the next one would meet that
        too."""
        try:
            block.enter_context(message)
        except RuntimeError as error:
            log.warning("message %s of queue %s: %s", message.id, message.queue, error)
            pause = handling_backoff_seconds(None)
            message.give_back(pause)
            self._ending.wait(pause)
            return False
        return True

    def _try(self, message: Message) -> None:
        try:
            result = self._handle(message)
        except BaseException as error:
            if not (isinstance(error, Exception) or _is_cancellation(error)):
                raise
            log.exception("message %s of queue %s failed", message.id, message.queue)
            if message.is_to_settle:
                message.give_back(handling_backoff_seconds(message.receive_count))
        else:
            if is_undone(result):
                raise wrong_result(result)


def _is_cancellation(error: BaseException) -> bool:
    """Return whether the error says that something was cancelled in an event loop that the handler
    ran."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError)
