"""The order in which messages are received."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mq.ids import MessageIds
from tests.support.processes import Server
from tests.support.wire import Wire

MESSAGES = 60


def _publish(wires: list[Wire]) -> list[str]:
    """Through each in turn; returns the ids, oldest first."""
    answers = [wires[n % len(wires)].request("POST", "/orders/messages") for n in range(MESSAGES)]
    return sorted(answer.headers["x-message-id"] for answer in answers)


def _places(wires: list[Wire], ready: list[str]) -> list[int]:
    """Receive all; returns the place of each among those that were ready then."""
    places = []
    while ready:
        answer = random.choice(wires).request("GET", "/orders/messages?wait=10")
        places.append(ready.index(answer.headers["x-message-id"]))
        del ready[places[-1]]
    return places


def test_one_server_gives_the_oldest(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire]
) -> None:
    wire = connect(start_server("--peers=0"))
    wire.request("PUT", "/orders")

    assert _places([wire], _publish([wire])) == [0] * MESSAGES


def test_three_servers_give_the_oldest(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire], root: Path
) -> None:
    wires = [connect(start_server("--peers=2", root=root)) for _ in range(3)]
    wires[0].request("PUT", "/orders")

    assert _places(wires, _publish(wires)) == [0] * MESSAGES


_HOUR_NS = 3600 * 1_000_000_000


def _own_ids() -> list[str | None]:
    """What producers may send: none, a word, UUIDs of all kinds; some clocks are wrong."""
    clocks = (time.time_ns() + hours * _HOUR_NS for hours in (-100_000, -1, 0, 0, 1, 23, 100_000))
    v7 = [MessageIds(lambda: clock).next() for clock in clocks]
    words = [f"{letter}-{uuid.uuid4()}" for letter in "0aAzZ"]
    return [None, None, None, *words, *v7, str(uuid.uuid4()), str(uuid.uuid1())]


def _publish_one_by_one(wire: Wire, ids: Sequence[str | None]) -> list[str]:
    """Each after the answer to the one before; returns the ids."""
    headers = [{} if each is None else {"x_message_id": each} for each in ids]
    return [wire.publish("orders", b"body", **each) for each in headers]


def _publish_at_once(wire: Wire, ids: Sequence[str | None]) -> list[str]:
    lines = [{"body": "b"} if each is None else {"body": "b", "id": each} for each in ids]
    body = b"".join(json.dumps(each).encode() + b"\n" for each in lines)
    answer = wire.request(
        "POST", "/orders/messages?batch", body, content_type="application/x-ndjson"
    )
    assert answer.status == 201
    return [json.loads(line)["id"] for line in answer.body.splitlines()]


def _listed(wire: Wire) -> list[str]:
    answer = wire.request("GET", "/orders/messages?peek&max=1000")
    return [json.loads(line)["id"] for line in answer.body.splitlines()]


def _received(wire: Wire, count: int) -> list[str]:
    return [wire.receive("orders").headers["x-message-id"] for _ in range(count)]


@pytest.mark.parametrize("publish", [_publish_one_by_one, _publish_at_once])
@pytest.mark.parametrize("is_known", [False, True])
def test_order_is_that_of_publication_whatever_the_ids_say(
    start_server: Callable[..., Server],
    connect: Callable[[Server], Wire],
    root: Path,
    publish: Callable[[Wire, Sequence[str | None]], list[str]],
    is_known: bool,
) -> None:
    """The order is the same in the memory of the server that published them, and of one that lists
    them again."""
    server = start_server("--peers=0", root=root)
    wire = connect(server)
    wire.request("PUT", "/orders")
    if is_known:
        assert _listed(wire) == []
    published = []
    for _ in range(6):
        ids = _own_ids()
        random.shuffle(ids)
        published += publish(wire, ids)

    assert _listed(wire) == published
    half = len(published) // 2
    assert _received(wire, half) == published[:half]
    server.kill()
    wire = connect(start_server("--peers=0", root=root))
    more = publish(wire, _own_ids())
    assert _listed(wire) == published[half:] + more
    assert _received(wire, len(published) - half + len(more)) == published[half:] + more


def test_a_message_that_comes_back_has_its_place_among_ids_of_all_kinds(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire], root: Path
) -> None:
    wire = connect(start_server("--peers=0", root=root))
    wire.request("PUT", "/orders")
    published = _publish_one_by_one(wire, _own_ids())
    _received(wire, 9)

    for message_id in random.sample(published[:9], 9):
        wire.request("GET", f"/orders/messages?id={message_id}&visibility=0")

    assert _received(wire, len(published)) == published
