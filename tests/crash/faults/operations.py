"""The operations of the sweep: what must be there before each, and its request. One line each."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.crash.faults.service import Request, Service

LARGE_BYTES = 200_000
"""Streamed by a worker, in one chunk or two."""

Before = Callable[[Service], Awaitable[dict[str, str]]]


class Operation(NamedTuple):
    """`before` makes what `request` is about. `answers` are those of a run without a fault."""

    before: Before
    request: Request
    answers: frozenset[int]


async def nothing(service: Service) -> dict[str, str]:
    """Every request has names of its own to fill in."""
    return {"fresh": os.urandom(8).hex()}


async def ready(service: Service) -> dict[str, str]:
    return {"id": await service.publish(os.urandom(20))}


async def large(service: Service) -> dict[str, str]:
    return {"id": await service.publish(os.urandom(LARGE_BYTES))}


async def leased(service: Service) -> dict[str, str]:
    """The queue is empty before: a receive that failed may have left a message in it."""
    await _empty(service)
    await service.publish(os.urandom(20))
    received = await service.receive()
    return {"id": received.message_id, "lease": received.headers["etag"]}


async def removed(service: Service) -> dict[str, str]:
    known = await leased(service)
    await service.send(Request("DELETE", "/orders/messages/{id}").about(**known))
    return known


async def full_queue(service: Service) -> dict[str, str]:
    """A queue with a message in each state."""
    name = f"full-{os.urandom(8).hex()}"
    assert (await service.send(Request("PUT", f"/{name}"))).status == 201
    for _ in range(2):
        await service.publish(os.urandom(20), name)
    await service.receive(name)
    return {"queue": name}


async def _empty(service: Service) -> None:
    while (await service.send(Request("GET", "/orders/messages"))).status == 200:
        pass


def _operation(before: Before, method: str, target: str, body: bytes = b"", *answers: int,
               **headers: str) -> Operation:  # fmt: skip
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Operation(before, Request(method, target, body, named), frozenset(answers))


_MESSAGES = "/orders/messages"
_MESSAGE = "/orders/messages/{id}"
_SMALL_BODY, _LARGE_BODY = b"small" * 4, b"large" * (LARGE_BYTES // 5)

OPERATIONS = {
    "publish": _operation(nothing, "POST", _MESSAGES, _SMALL_BODY, 201),
    "publish with a type": _operation(nothing, "POST", _MESSAGES, _SMALL_BODY, 201,
                                      Content_Type="text/plain"),
    "publish large": _operation(nothing, "POST", _MESSAGES, _LARGE_BODY, 201),
    "receive": _operation(ready, "GET", _MESSAGES, b"", 200),
    "receive large": _operation(large, "GET", _MESSAGES, b"", 200),
    "receive from an unlisted queue": _operation(full_queue, "GET", "/{queue}/messages", b"", 200),
    "remove ready": _operation(ready, "DELETE", _MESSAGE, b"", 202),
    "remove leased": _operation(leased, "DELETE", _MESSAGE, b"", 202),
    "remove under its lease": _operation(leased, "DELETE", _MESSAGE, b"", 202, If_Match="{lease}"),
    "remove again": _operation(removed, "DELETE", _MESSAGE, b"", 202),
    "create queue": _operation(nothing, "PUT", "/made-{fresh}", b"", 201),
    "delete queue": _operation(full_queue, "DELETE", "/{queue}", b"", 200),
    "describe queue": _operation(full_queue, "GET", "/{queue}", b"", 200),
}  # fmt: skip
