"""The operations of the sweep: what must be there before each, and its request. One line each."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.crash.faults.service import Service, ServiceRequest

LARGE_BYTES = 200_000
"""Streamed by a worker, in one chunk or two."""

_MESSAGES = "/orders/messages"
_SMALL_BODY, _LARGE_BODY = b"small" * 4, b"large" * (LARGE_BYTES // 5)

PROPERTIES = {"traceparent": "00-1-2-01", "X-Meta-Shop": "north"}

Before = Callable[[Service], Awaitable[dict[str, str]]]


class Operation(NamedTuple):
    """`before` makes what `request` is about. `answers` are those of a run without a fault."""

    before: Before
    request: ServiceRequest
    answers: frozenset[int]

    @property
    def is_move(self) -> bool:
        return "?from=" in self.request.target


async def nothing(service: Service) -> dict[str, str]:
    """Every request has names of its own to fill in."""
    return {"fresh": os.urandom(8).hex()}


async def ready(service: Service) -> dict[str, str]:
    return {"id": await service.publish(os.urandom(20))}


async def large(service: Service) -> dict[str, str]:
    return {"id": await service.publish(os.urandom(LARGE_BYTES))}


async def leased(service: Service) -> dict[str, str]:
    """The queue is empty before: a receive that failed may have left a message in it. What a sweep
    brings from a batch that failed comes before the new message: to remove the copy of one that is
    in another queue too would say that all of them are removed."""
    await _empty(service)
    message_id = await service.publish(os.urandom(20))
    received = await service.send(ServiceRequest("GET", f"{_MESSAGES}?id={message_id}"))
    assert received.status == 200
    return {"id": message_id, "lease": received.headers["etag"]}


async def leased_and_fresh(service: Service) -> dict[str, str]:
    return await leased(service) | await nothing(service)


async def with_properties(service: Service) -> dict[str, str]:
    """Two, one of them large."""
    await _empty(service)
    for body in (os.urandom(20), os.urandom(LARGE_BYTES)):
        await service.send(ServiceRequest("POST", _MESSAGES, body, PROPERTIES))
    return {}


async def old_format(service: Service) -> dict[str, str]:
    """No message of this server had properties yet."""
    service.forget_format()
    return {}


async def removed(service: Service) -> dict[str, str]:
    known = await leased(service)
    await service.send(ServiceRequest("DELETE", "/orders/messages/{id}").about(**known))
    return known


async def several(service: Service) -> dict[str, str]:
    """Three ready messages, one of them large."""
    await _empty(service)
    for size in (20, LARGE_BYTES, 20):
        await service.publish(os.urandom(size))
    return {}


async def delayed(service: Service) -> dict[str, str]:
    request = ServiceRequest("POST", f"{_MESSAGES}?delay=3600", os.urandom(20))
    return {"id": (await service.send(request)).message_id}


async def owned(service: Service) -> dict[str, str]:
    """A message whose id its producer chose."""
    message_id = f"own-{os.urandom(8).hex()}"
    headers = {"X-Message-Id": message_id}
    await service.send(ServiceRequest("POST", _MESSAGES, _SMALL_BODY, headers))
    return {"id": message_id}


async def owned_and_removed(service: Service) -> dict[str, str]:
    known = await owned(service)
    await service.send(ServiceRequest("DELETE", "/orders/messages/{id}").about(**known))
    return known


async def full_queue(service: Service) -> dict[str, str]:
    """A queue with a message in each state."""
    name = f"full-{os.urandom(8).hex()}"
    assert (await service.send(ServiceRequest("PUT", f"/{name}"))).status == 201
    for _ in range(2):
        await service.publish(os.urandom(20), name)
    await service.receive(name)
    return {"queue": name}


async def queue_of_others(service: Service) -> dict[str, str]:
    """A queue with messages whose ids tell no time, and which came long ago: nothing makes the
    server list the folder again."""
    name = f"others-{os.urandom(8).hex()}"
    assert (await service.send(ServiceRequest("PUT", f"/{name}"))).status == 201
    for number in range(2):
        headers = {"X-Message-Id": f"{name}-{number}"}
        await service.send(ServiceRequest("POST", f"/{name}/messages", os.urandom(20), headers))
    os.utime(service.root / "queues" / name, (0, 0))
    return {"queue": name}


async def leased_elsewhere(service: Service) -> dict[str, str]:
    """A leased message in a queue of its own."""
    name = f"source-{os.urandom(8).hex()}"
    assert (await service.send(ServiceRequest("PUT", f"/{name}"))).status == 201
    await service.publish(os.urandom(20), name)
    received = await service.receive(name)
    return {"queue": name, "id": received.message_id, "lease": received.headers["etag"]}


async def two(service: Service) -> dict[str, str]:
    """A leased message and a ready one."""
    known = await leased(service)
    return {"ids": f"{known['id']},{(await ready(service))['id']}"}


async def _empty(service: Service) -> None:
    while (await service.send(ServiceRequest("GET", "/orders/messages"))).status == 200:
        pass


def _operation(before: Before, method: str, target: str, body: bytes = b"", *answers: int,
               **headers: str) -> Operation:  # fmt: skip
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Operation(before, ServiceRequest(method, target, body, named), frozenset(answers))


def _batch(length: int) -> bytes:
    """Three lines, the last one delayed."""
    lines = [{"body": "{fresh}" + str(number) * length} for number in range(2)]
    return b"\n".join(
        json.dumps(line).encode()
        for line in (*lines, lines[0] | {"body": "{fresh}", "delay": 3600})
    )


_MESSAGE = "/orders/messages/{id}"
_BY_ID = "/orders/messages?id={id}&visibility="
_HAND_OVER = "/bills/messages?removes=orders/{id}"

OPERATIONS = {
    "publish": _operation(nothing, "POST", _MESSAGES, _SMALL_BODY, 201),
    "publish with a type": _operation(nothing, "POST", _MESSAGES, _SMALL_BODY, 201,
                                      Content_Type="text/plain"),
    "publish large": _operation(nothing, "POST", _MESSAGES, _LARGE_BODY, 201),
    "publish with properties": _operation(old_format, "POST", _MESSAGES, _SMALL_BODY, 201,
                                          traceparent="00-1-2-01", X_Meta_Shop="north"),
    "publish large with properties": _operation(old_format, "POST", _MESSAGES, _LARGE_BODY, 201,
                                                X_Meta_Shop="north"),
    "receive with properties": _operation(with_properties, "GET", _MESSAGES, b"", 200),
    "receive several with properties": _operation(with_properties, "GET", _MESSAGES + "?max=10",
                                                  b"", 200),
    "publish a batch": _operation(nothing, "POST", _MESSAGES + "?batch", _batch(20), 201,
                                  Content_Type="application/x-ndjson"),
    "publish a large batch": _operation(nothing, "POST", _MESSAGES + "?batch", _batch(40_000), 201,
                                        Content_Type="application/x-ndjson"),
    "publish to two queues": _operation(nothing, "POST", _MESSAGES + "?also=bills",
                                        b"{fresh}", 201),
    "publish to two queues with an id": _operation(nothing, "POST", _MESSAGES + "?also=bills",
                                                   b"{fresh}", 201, 200,
                                                   X_Message_Id="own-{fresh}"),
    "publish a batch to two queues": _operation(nothing, "POST", _MESSAGES + "?batch&also=bills",
                                                _batch(20), 201,
                                                Content_Type="application/x-ndjson"),
    "hand over": _operation(leased_and_fresh, "POST", _HAND_OVER, b"{fresh}", 201,
                            If_Match="{lease}"),
    "hand over large with an id": _operation(leased_and_fresh, "POST", _HAND_OVER,
                                             b"{fresh}" + _LARGE_BODY, 201, 200,
                                             If_Match="{lease}", X_Message_Id="own-{fresh}"),
    "hand over for a batch": _operation(leased_and_fresh, "POST", _HAND_OVER + "&batch&also=orders",
                                        _batch(20), 201, If_Match="{lease}",
                                        Content_Type="application/x-ndjson"),
    "receive": _operation(ready, "GET", _MESSAGES, b"", 200),
    "receive large": _operation(large, "GET", _MESSAGES, b"", 200),
    "receive from an unlisted queue": _operation(full_queue, "GET", "/{queue}/messages", b"", 200),
    "receive own ids": _operation(queue_of_others, "GET", "/{queue}/messages", b"", 200),
    "remove ready": _operation(ready, "DELETE", _MESSAGE, b"", 202),
    "remove leased": _operation(leased, "DELETE", _MESSAGE, b"", 202),
    "remove under its lease": _operation(leased, "DELETE", _MESSAGE, b"", 202, If_Match="{lease}"),
    "remove again": _operation(removed, "DELETE", _MESSAGE, b"", 202),
    "publish delayed": _operation(nothing, "POST", _MESSAGES + "?delay=3600", _SMALL_BODY, 201),
    # 200 too: it found its own message, in a move that the fault cut in two.
    "publish with an id": _operation(nothing, "POST", _MESSAGES, _SMALL_BODY, 201, 200,
                                     X_Message_Id="own-{fresh}"),
    "publish large with an id": _operation(nothing, "POST", _MESSAGES, _LARGE_BODY, 201, 200,
                                           X_Message_Id="own-{fresh}"),
    "publish again with an id": _operation(owned, "POST", _MESSAGES, _SMALL_BODY, 200,
                                           X_Message_Id="{id}"),
    "publish again with the id of a removed message": _operation(
        owned_and_removed, "POST", _MESSAGES, _SMALL_BODY, 200, X_Message_Id="{id}"
    ),
    "receive several": _operation(several, "GET", _MESSAGES + "?max=10", b"", 200),
    "receive by id": _operation(ready, "GET", _BY_ID + "900", b"", 200),
    "receive delayed by id": _operation(delayed, "GET", _BY_ID + "900", b"", 200),
    "receive large by id": _operation(large, "GET", _BY_ID + "900", b"", 200),
    "prolong": _operation(leased, "GET", _BY_ID + "900", b"", 200, If_Match="{lease}"),
    "release": _operation(leased, "GET", _BY_ID + "0", b"", 204, If_Match="{lease}"),
    # One that cannot be read is passed over, so that the others can be looked at.
    "peek": _operation(ready, "GET", _MESSAGES + "?peek&max=10", b"", 200, 204),
    "peek at leased": _operation(
        leased, "GET", _MESSAGES + "?peek&max=10&state=leased", b"", 200, 204
    ),
    "create queue": _operation(nothing, "PUT", "/made-{fresh}", b"", 201),
    "delete queue": _operation(full_queue, "DELETE", "/{queue}", b"", 200),
    "purge": _operation(full_queue, "DELETE", "/{queue}?purge", b"", 200),
    "move": _operation(full_queue, "POST", _MESSAGES + "?from={queue}", b"", 200),
    "move by id": _operation(leased_elsewhere, "POST", _MESSAGES + "?from={queue}&id={id}", b"",
                             200),
    "bury": _operation(leased_elsewhere, "POST", _MESSAGES + "?from={queue}&id={id}&reason=bad",
                       b"", 200, If_Match="{lease}"),
    "change settings": _operation(full_queue, "PUT", "/{queue}?visibility=60", b"", 200),
    "create queue with settings": _operation(nothing, "PUT", "/made-{fresh}?visibility=60", b"",
                                             201),
    "remove several": _operation(two, "DELETE", "/orders/messages/{ids}", b"", 202, 207),
    "describe queue": _operation(full_queue, "GET", "/{queue}", b"", 200),
}  # fmt: skip
