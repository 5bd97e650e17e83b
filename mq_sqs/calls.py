"""One call of an operation, and what the operations of a gateway share."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from aiohttp import web

from mq.commit.awaited import settle
from mq.commit.operation import Done
from mq.names import QueueName, is_fifo
from mq.spool.queue.queue_settings import QueueSettings
from mq.store.answer_memory import Share
from mq.store.receiving.received_message import Received
from mq.store.shared_state import Workspace
from mq.store.store import Store
from mq.web.standing_in_line import Wait
from mq.web.tokens import KnownToken
from mq_sqs.faults import INVALID_PARAMETER_VALUE, SQSError
from mq_sqs.fifo.service import FifoService
from mq_sqs.protocol import Values
from mq_sqs.queues.addresses import Addressing
from mq_sqs.tasks.move_tasks import MoveTasks

Result = Mapping[str, Any]


class Begun(NamedTuple):
    """An operation for a caller that need not wait. `submit` begins it and is called once. `tell`
    takes what it returned, and returns the result for the client or raises SQSError. One that
    `receives` messages may return None: the usual way must answer. With `waits` it is not begun by
    `submit`: its caller stands in line for messages."""

    submit: Callable[[Done], None]
    tell: Callable[[Any], Any]
    receives: bool = False
    waits: Wait | None = None

    async def end(self) -> Result:
        """Begin it and wait for its end. Raises what it raises, too."""
        ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.submit(partial(settle, ended, None))
        told: Result = self.tell(await ended)
        return told


_OWN_REQUESTS = str(uuid.uuid4())[:-12]
_numbers = count(1)


def make_request_id() -> str:
    """Return an id that no other request has, in a tenth of the time of `uuid.uuid4`: the beginning
    is that of this process, and the end a number."""
    return f"{_OWN_REQUESTS}{next(_numbers):012x}"


@dataclass(slots=True)
class SqsCall:
    """A checked request. `base` is the address that the client calls, such as
    `http://localhost:9324`.

    `exits` ends once the answer is made, that with large messages once it is written; or when
    nobody waits for it. Messages in `received`, some of which the quick way may have taken, are
    released if the client is gone by then. `share` is the memory of their answer.
    """

    values: Values
    request: web.BaseRequest
    base: str
    token: KnownToken | None
    exits: AsyncExitStack
    received: list[Received] = field(default_factory=list)
    share: Share | None = None


def read_number(values: Values, name: str, least: int, most: int) -> int | None:
    """Return a number, or None if it is not given. Raises SQSError if it is not within its
    limits."""
    value: int | None = values.get(name)
    return None if value is None else check_number(name, value, least, most)


def check_number(name: str, value: int, least: int, most: int) -> int:
    """Raise SQSError if a number is not within its limits."""
    if not least <= value <= most:
        limits = f"between {least} and {most}" if least else f">= 0 and <= {most}"
        # Amazon says it in other words of a message that is sent.
        is_delay = name == "DelaySeconds"
        reason = f"{name} must be {limits}" if is_delay else f"Must be {limits}, if provided"
        shown = str(value) if abs(value) < 10**18 else "given"
        raise SQSError(
            INVALID_PARAMETER_VALUE,
            f"Value {shown} for parameter {name} is invalid. Reason: {reason}.",
        )
    return value


def _look_at_settings(work: Workspace, queue: QueueName) -> QueueSettings:
    work.require_queue(queue)
    return work.settings.of(queue)


class Operations:
    """The store, and what the gateway adds to it."""

    def __init__(self, store: Store, addressing: Addressing, visibility_seconds: float) -> None:
        self.store = store
        self.fifo = FifoService(store)
        self.addressing = addressing
        self.visibility_seconds = visibility_seconds
        self.move_tasks = MoveTasks(store, self.fifo)
        self._turns: WeakValueDictionary[QueueName, asyncio.Lock] = WeakValueDictionary()

    def keeper_of(self, queue: QueueName) -> Store | FifoService:
        """Return what receives and removes the queue's messages, and hides or shows them."""
        return self.fifo if is_fifo(queue) else self.store

    def turn(self, queue: QueueName) -> asyncio.Lock:
        """Return the lock for changes of a queue's attributes, which happen one after the other."""
        return self._turns.setdefault(queue, asyncio.Lock())

    async def settings_of(self, queue: QueueName) -> QueueSettings:
        """Return a queue's settings. Raises QueueNotFound, StoreUnavailable."""
        known = self.store.known_settings(queue)
        return await self.store.call(_look_at_settings, queue) if known is None else known
