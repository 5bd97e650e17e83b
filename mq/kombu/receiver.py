"""`Receiver`: a thread that receives messages for the consumers of one channel."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

from kombu.utils.scheduling import cycle_by_name

from mq.client import ClientError, Message, UnexpectedAnswer, operations
from mq.client.blocking.session import Session
from mq.client.messages import Delivery
from mq.client.retries import WORKER_PAUSE_SECONDS, asked_pause_seconds, is_temporary
from mq.client.wire import Stopped
from mq.config import (
    MAX_QUEUES,
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
_ONE_OF_MANY_WAIT_SECONDS = 1.0
"""How long a request waits for a message if there are more queues than one request may name, and
none of them has any."""


class Consumption(NamedTuple):
    """A queue that is consumed, by whom, and what is called with its messages."""

    consumer: str
    queue: QueueName
    deliver: Callable[[Message], None]


class _Poll:
    """The requests for the queues that are consumed now. It ends when others are."""

    def __init__(self, session: Session, queues: Sequence[QueueName]) -> None:
        self.queues = queues
        self.ended = threading.Event()
        self.connections = session.connections()

    def end(self) -> None:
        """Ask for no more, and return at once. What the server has delivered already comes."""
        self.ended.set()
        self.connections.hang_up()


class Receiver:
    """Asks with long polls for as many messages as there is room for, and puts them into the inbox.
    One request is for all queues, in the order that the options say.

    So the thread of the consumer, Celery's event loop for example, never waits for a server. While
    the server cannot be reached, or a proxy answers in its place, the receiver keeps trying; other
    errors go into the inbox, and end the consumption of the queue that has them.
    """

    def __init__(
        self,
        *,
        session: Session,
        options: MqOptions,
        prefetch: Prefetch,
        keeper: Keeper,
        inbox: Inbox,
    ) -> None:
        self._session = session
        self._visibility = options.visibility_seconds
        self._wait_seconds = options.wait_seconds or WORKER_WAIT_SECONDS
        if not session.address.can_hang_up:
            self._wait_seconds = min(self._wait_seconds, WORKER_SHORT_WAIT_SECONDS)
        self._prefetch = prefetch
        self._keeper = keeper
        self._inbox = inbox
        self._lock = threading.Lock()
        self._consumed: dict[str, Consumption] = {}
        self._order = cycle_by_name(options.queue_order)()
        self._poll = _Poll(session, ())
        self._thread: threading.Thread | None = None
        self._is_running = False

    def consume(self, consumption: Consumption) -> None:
        """Receive for one more consumer."""
        with self._lock:
            self._consumed[consumption.consumer] = consumption
            self._ask_anew()
            if not self._is_running:
                thread = threading.Thread(target=self._run, name="mq-receive", daemon=True)
                thread.start()
                self._thread, self._is_running = thread, True
        self._prefetch.wake()

    def cancel(self, consumer: str) -> None:
        """Receive for this consumer no more, and return at once. Messages that the server has
        delivered already are released."""
        with self._lock:
            if self._consumed.pop(consumer, None) is not None:
                self._ask_anew()
        self._prefetch.wake()
        for message in self._inbox.withdraw(consumer):
            self._keeper.release(message)

    def close(self) -> None:
        """Wait for the thread, once nothing is consumed, for as long as an answer may be under
        way."""
        if self._thread is not None:
            self._thread.join(WORKER_STOP_SECONDS)
        self._poll.connections.close()

    def _ask_anew(self) -> None:
        """End the requests that are under way, which are for other queues."""
        queues = [*dict.fromkeys(each.queue for each in self._consumed.values())]
        self._order.update(queues)
        self._poll.end()
        if queues:
            self._poll = _Poll(self._session, queues)

    def _run(self) -> None:
        while True:
            with self._lock:
                poll = self._poll
                if not self._consumed:
                    self._is_running = False
                    return
            try:
                self._receive_some(poll)
            except Exception as error:
                for queue in poll.queues:
                    self._give_up(queue, error)

    def _receive_some(self, poll: _Poll) -> None:
        room = self._prefetch.wait_for_room(poll.ended.is_set)
        if not room:
            return
        # No queue takes all the room as long as others may have messages too.
        most = min(-(-room // len(poll.queues)), _MOST_AT_ONCE)
        with self._lock:
            queues = self._order.consume(len(poll.queues))
        parts = [queues[at : at + MAX_QUEUES] for at in range(0, len(queues), MAX_QUEUES)]
        waits = [self._wait_seconds] if len(parts) == 1 else [0.0, _ONE_OF_MANY_WAIT_SECONDS]
        for wait, part in product(waits, parts):
            if self._receive(poll, part, most, wait) or poll.ended.is_set():
                break

    def _receive(self, poll: _Poll, queues: Sequence[QueueName], most: int, wait: float) -> bool:
        """Receive messages from the first of the queues that has any, and pass them on. Returns
        whether there were some."""
        try:
            found = self._ask(poll, queues, most, wait)
        except ClientError as error:
            if len(queues) > 1:
                # One of them is missing or forbidden; the others go on.
                if any(self._receive(poll, [each], most, 0.0) for each in queues):
                    return True
                # None is, unless the poll has ended: an older server knows no request for several.
                poll.ended.wait(WORKER_PAUSE_SECONDS)
                return False
            self._give_up(queues[0], error)
            return False
        if found:
            self._prefetch.use(len(found))
            with self._lock:
                self._order.rotate(found[0].queue)
        for each in found:
            self._pass_on(Message(self._session, each))
        return bool(found)

    def _ask(
        self, poll: _Poll, queues: Sequence[QueueName], most: int, wait: float
    ) -> list[Delivery]:
        """Return messages, and none if there is none now or the server cannot be reached. Raises
        ClientError for what waiting does not mend."""
        context, visibility = self._session.context, self._visibility
        asking = operations.receive_many(context, queues, most, wait, visibility)
        try:
            return self._session.run(asking, poll.ended, poll.connections)
        except Stopped:
            return []
        except ClientError as error:
            if poll.ended.is_set():
                return []
            if not (is_temporary(error) or isinstance(error, UnexpectedAnswer)):
                raise
            log.warning("no messages from queue %s, trying on: %s", ", ".join(queues), error)
            # The error of another program comes at once, and with a retry time of 0 any other.
            poll.ended.wait(WORKER_PAUSE_SECONDS + asked_pause_seconds(error))
            return []

    def _give_up(self, queue: QueueName, error: Exception) -> None:
        """Consume a queue no more, and say why to those who did."""
        with self._lock:
            ended = [each for each in self._consumed.values() if each.queue == queue]
            for each in ended:
                del self._consumed[each.consumer]
            self._ask_anew()
        for each in ended:
            self._inbox.put(Arrival(each.consumer, each.deliver, None, error))

    def _pass_on(self, message: Message) -> None:
        self._keeper.hold(message)
        consumption = self._consumption_of(message)
        if consumption is None:
            self._keeper.release(message)
            return
        arrival = Arrival(consumption.consumer, consumption.deliver, message)
        if not self._inbox.put(arrival):
            self._keeper.release(message)
        elif consumption.consumer not in self._consumed:
            # `cancel` may have looked into the inbox before.
            for each in self._inbox.withdraw(consumption.consumer):
                self._keeper.release(each)

    def _consumption_of(self, message: Message) -> Consumption | None:
        with self._lock:
            for each in self._consumed.values():
                if each.queue == message.queue:
                    return each
        return None
