"""`Receiver`: a thread that receives the messages of one queue for a consumer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from mq.client import ClientError, Message, UnexpectedAnswer, operations
from mq.client.blocking.session import Session
from mq.client.retries import WORKER_PAUSE_SECONDS, asked_pause_seconds, is_temporary
from mq.client.wire import Stopped
from mq.config import (
    WORKER_SHORT_WAIT_SECONDS,
    WORKER_STOP_SECONDS,
    WORKER_WAIT_SECONDS,
)
from mq.kombu.broker import MqOptions
from mq.kombu.inbox import Arrival, Inbox
from mq.kombu.keeper import Keeper
from mq.kombu.prefetch import Prefetch
from mq.names import QueueName

log = logging.getLogger("mq.kombu")

_MOST_AT_ONCE = 100
"""How many messages one request asks for. Their bodies are in memory together."""
_SHARED_WAIT_SECONDS = 1.0
"""How long a request waits for a message if several queues share a prefetch count."""


class Receiver:
    """Asks with long polls for as many messages as there is room for, and puts them into the inbox.

    So the thread of the consumer, Celery's event loop for example, never waits for a server. While
    the server cannot be reached, or a proxy answers in its place, the receiver keeps trying; other
    errors go into the inbox and end it.
    """

    def __init__(
        self,
        *,
        session: Session,
        options: MqOptions,
        queue: QueueName,
        consumer: str,
        deliver: Callable[[Message], None],
        prefetch: Prefetch,
        keeper: Keeper,
        inbox: Inbox,
    ) -> None:
        self.queue = queue
        self._session = session
        self._visibility = options.visibility_seconds
        self._wait_seconds = options.wait_seconds or WORKER_WAIT_SECONDS
        if not session.address.can_hang_up:
            self._wait_seconds = min(self._wait_seconds, WORKER_SHORT_WAIT_SECONDS)
        self._consumer = consumer
        self._deliver = deliver
        self._prefetch = prefetch
        self._keeper = keeper
        self._inbox = inbox
        self._polls = session.connections()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"mq-receive-{queue}", daemon=True)
        prefetch.join(consumer)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask for no more, and return at once. Messages that the server has delivered already are
        released."""
        self._stopping.set()
        self._prefetch.wake()
        self._polls.hang_up()
        for message in self._inbox.withdraw(self._consumer):
            self._keeper.release(message)

    def join(self) -> None:
        """Wait for the thread, after `stop`, for as long as an answer may be under way."""
        self._thread.join(WORKER_STOP_SECONDS)
        self._polls.close()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._receive_some()
        except Exception as error:
            self._inbox.put(Arrival(self._consumer, self._deliver, None, error))
        finally:
            self._prefetch.leave(self._consumer)

    def _receive_some(self) -> None:
        prefetch, most = self._prefetch, _MOST_AT_ONCE
        reserved = prefetch.reserve(self._consumer, most, self._stopping.is_set)
        if not reserved:
            return
        found: list[Message] = []
        try:
            found = self._receive(reserved)
        finally:
            prefetch.end_reservation(self._consumer, reserved, len(found))
        for message in found:
            self._pass_on(message)

    def _receive(self, most: int) -> list[Message]:
        """Return messages, and none if there is none now or the server cannot be reached."""
        wait = self._prefetch.wait_seconds(self._wait_seconds, _SHARED_WAIT_SECONDS)
        receive = operations.receive_many(
            self._session.context, [self.queue], most, wait, self._visibility
        )
        try:
            found = self._session.run(receive, self._stopping, self._polls)
        except Stopped:
            return []
        except ClientError as error:
            if self._stopping.is_set():
                return []
            if not (is_temporary(error) or isinstance(error, UnexpectedAnswer)):
                raise
            log.warning("no messages from queue %s, trying on: %s", self.queue, error)
            # The error of another program comes at once, and with a retry time of 0 any other.
            self._stopping.wait(WORKER_PAUSE_SECONDS + asked_pause_seconds(error))
            return []
        return [Message(self._session, each) for each in found]

    def _pass_on(self, message: Message) -> None:
        self._keeper.hold(message)
        arrival = Arrival(self._consumer, self._deliver, message)
        if self._stopping.is_set() or not self._inbox.put(arrival):
            self._keeper.release(message)
        elif self._stopping.is_set():
            # `stop` may have looked into the inbox before.
            for each in self._inbox.withdraw(self._consumer):
                self._keeper.release(each)
