"""What is kept of order: all of it with one server, nearly all of it with several."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tests.conftest import Server
from tests.contract.conftest import Wire

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


def test_three_servers_give_one_of_the_three_oldest(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire], root: Path
) -> None:
    wires = [connect(start_server("--peers=2", root=root)) for _ in range(3)]
    wires[0].request("PUT", "/orders")

    places = _places(wires, _publish(wires))

    assert len(places) == MESSAGES
    assert set(places) == {0, 1, 2}
