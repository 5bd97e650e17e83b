"""`Keeper`: a thread that settles what a channel holds, whose leases are renewed until then."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from queue import Empty, SimpleQueue
from typing import NamedTuple, TypeVar

from mq.client import BadRequest, ClientError, Message, QueueNotFound, UnexpectedAnswer
from mq.client.blocking.queue import Queue
from mq.client.blocking.session import Session
from mq.client.retries import WORKER_PAUSE_SECONDS
from mq.config import WORKER_STOP_SECONDS
from mq.kombu.prefetch import Prefetch
from mq.kombu.renewer import Renewer
from mq.names import dead_letter_queue, parse_queue_name

T = TypeVar("T")

log = logging.getLogger("mq.kombu")

_REASON = "rejected"
"""Why a message is a dead letter, as `X-Dead-Reason` says it."""


class _Verb(Enum):
    ACKNOWLEDGE = "remove it"
    RELEASE = "give it back"
    BURY = "make it a dead letter"
    STOP = "end"


class _Order(NamedTuple):
    """What to do with a message. If there is an `end`, it is set once that is done, or failed."""

    verb: _Verb
    message: Message | None
    end: threading.Event | None = None


class Keeper:
    """Settles messages in the order in which that was asked for, in one thread; another one renews
    their leases until their turn comes. Only `close` and `wait_for_releases` wait for the server.

    Messages to acknowledge go to the server together. A message that cannot be settled is logged,
    and comes again when its lease is over. Its room is free once the server has answered.
    """

    def __init__(self, session: Session, room: Prefetch) -> None:
        self._session = session
        self._room = room
        self._leases = Renewer(session)
        self._orders: SimpleQueue[_Order] = SimpleQueue()
        self._released = threading.Event()
        self._released.set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def hold(self, message: Message) -> None:
        """Renew the lease of a message until it is settled."""
        self._leases.hold(message)

    def acknowledge(self, message: Message) -> None:
        self._tell(_Verb.ACKNOWLEDGE, message)

    def release(self, message: Message) -> None:
        self._released = end = threading.Event()
        self._tell(_Verb.RELEASE, message, end)

    def wait_for_releases(self) -> None:
        """Wait up to 5 seconds for what was released before to be in its queue again."""
        self._released.wait(WORKER_STOP_SECONDS)

    def bury(self, message: Message) -> None:
        """Make a message a dead letter of its queue, by one rename. In a queue of dead letters it
        is removed."""
        self._tell(_Verb.BURY, message)

    def close(self) -> None:
        """Settle what was ordered so far, as far as the server answers within 5 seconds."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            self._orders.put(_Order(_Verb.STOP, None))
            thread.join(WORKER_STOP_SECONDS)
            if thread.is_alive():
                log.warning(
                    "not all messages were settled within %.3g s; the others return by themselves "
                    "when their leases are over", WORKER_STOP_SECONDS,
                )  # fmt: skip
        self._leases.close()

    def _tell(self, verb: _Verb, message: Message, end: threading.Event | None = None) -> None:
        self._orders.put(_Order(verb, message, end))
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="mq-keeper", daemon=True)
                # The system may have no thread for it now. The next order asks for one again.
                with suppress(RuntimeError):
                    thread.start()
                    self._thread = thread

    def _run(self) -> None:
        while True:
            orders = self._next_orders()
            acknowledged = [each.message for each in orders if each.verb is _Verb.ACKNOWLEDGE]
            self._acknowledge([each for each in acknowledged if each is not None])
            for verb, message, end in orders:
                if message is None:
                    return
                if verb is _Verb.RELEASE:
                    self._settle(message, Message.release, "given back")
                elif verb is _Verb.BURY:
                    self._settle(message, self._bury, "made a dead letter")
                if end is not None:
                    end.set()

    def _next_orders(self) -> list[_Order]:
        """Wait for an order. Returns all there are."""
        orders = [self._orders.get()]
        try:
            while True:
                orders.append(self._orders.get_nowait())
        except Empty:
            return orders

    def _acknowledge(self, messages: list[Message]) -> None:
        """Acknowledge messages. If a message came twice, its leases go in two requests."""
        while messages:
            queue = messages[0].queue
            first: dict[str, Message] = {}
            for message in messages:
                if message.queue == queue:
                    first.setdefault(message.id, message)
            batch = set(map(id, first.values()))
            messages = [each for each in messages if id(each) not in batch]
            self._acknowledge_some(queue, first)

    def _acknowledge_some(self, queue: str, messages: dict[str, Message]) -> None:
        for message in messages.values():
            self._leases.end(message)
        leases = {name: message.lease for name, message in messages.items()}
        asked = Queue(self._session, parse_queue_name(queue))
        try:
            failed = self._ask(lambda: asked.ack_many(leases))
        except ClientError as error:
            failed = dict.fromkeys(leases, error)
        for name, reason in failed.items():
            log.warning(
                "message %s of queue %s was done and not removed, it may come again: %s",
                name, queue, reason,
            )  # fmt: skip
        self._room.free(len(messages))

    def _settle(self, message: Message, how: Callable[[Message], None], done: str) -> None:
        self._leases.end(message)
        try:
            self._ask(lambda: how(message))
        except ClientError as error:
            log.warning(
                "message %s of queue %s was not %s, it returns when its lease is over: %s",
                message.id, message.queue, done, error,
            )  # fmt: skip
        self._room.free(1)

    def _ask(self, request: Callable[[], T]) -> T:
        """Make a request. What another program answers, a proxy whose server is away for example,
        is asked again as no answer is, for the client's retry time. Raises ClientError."""
        context = self._session.context
        give_up_at = context.clock() + context.retry_seconds
        while True:
            try:
                return request()
            except UnexpectedAnswer:
                if context.clock() + WORKER_PAUSE_SECONDS >= give_up_at:
                    raise
            time.sleep(WORKER_PAUSE_SECONDS)

    def _bury(self, message: Message) -> None:
        queue = parse_queue_name(message.queue)
        usual = dead_letter_queue(queue)
        if usual is None:
            # A message in a queue of dead letters does not go anywhere else.
            message.ack()
            return
        chosen = Queue(self._session, queue).settings().get("dead-letters", usual)
        try:
            _move(message, chosen)
        except QueueNotFound:
            Queue(self._session, parse_queue_name(chosen)).create()
            _move(message, chosen)


def _move(message: Message, dead_letters: str) -> None:
    try:
        message.move(dead_letters, reason=_REASON)
    except BadRequest:
        # A file system without extended attributes keeps no reason.
        message.move(dead_letters)
