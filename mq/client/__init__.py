"""Clients for Python: `Client` for threads, `AsyncClient` for asyncio, with the same methods.

docs/client.md shows how to use them. `Client` needs the standard library alone; aiohttp is loaded
with `AsyncClient`.

    what a client does      `operations`, `publishing`, `by_id`, `moves`, `renewals`: generators
                            that both clients run
    arguments               `arguments`
    requests and answers    `wire`, `answers`, `messages`, `received`, `settings`, `problems`,
                            `errors`
    connections             `connection`, `token`, `retries`, `forking`
    ids, handlers, signals  `own_ids`, `handlers`, `signals`

`blocking` and `aio` run these over sockets. What belongs to one of them alone is in its folder.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from mq.client.blocking.client import Client
from mq.client.blocking.message import Message
from mq.client.blocking.queue import Queue
from mq.client.blocking.worker import Worker
from mq.client.errors import (
    BadRequest,
    BodyTooLarge,
    ClientClosed,
    ClientError,
    Forbidden,
    IdTaken,
    LeaseLost,
    MessageNotFound,
    NoAnswer,
    Problem,
    QueueNotFound,
    Refused,
    TooOld,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
)
from mq.client.messages import Body, Counts, NewMessage, Peeked
from mq.errors import InvalidName

if TYPE_CHECKING:
    from mq.client.aio.client import AsyncClient
    from mq.client.aio.message import AsyncMessage
    from mq.client.aio.queue import AsyncQueue
    from mq.client.aio.worker import AsyncWorker

__all__ = [
    "AsyncClient",
    "AsyncMessage",
    "AsyncQueue",
    "AsyncWorker",
    "BadRequest",
    "Body",
    "BodyTooLarge",
    "Client",
    "ClientClosed",
    "ClientError",
    "Counts",
    "Forbidden",
    "IdTaken",
    "InvalidName",
    "LeaseLost",
    "Message",
    "MessageNotFound",
    "NewMessage",
    "NoAnswer",
    "Peeked",
    "Problem",
    "Queue",
    "QueueNotFound",
    "Refused",
    "TooOld",
    "Unauthorized",
    "Unavailable",
    "UnexpectedAnswer",
    "Worker",
]

_ASYNCHRONOUS = {
    "AsyncClient": "client",
    "AsyncMessage": "message",
    "AsyncQueue": "queue",
    "AsyncWorker": "worker",
}


def __getattr__(name: str) -> object:
    """Load what needs aiohttp when it is first asked for (PEP 562)."""
    if name not in _ASYNCHRONOUS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"mq.client.aio.{_ASYNCHRONOUS[name]}")
    found: object = getattr(module, name)
    return found
