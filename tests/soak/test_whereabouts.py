"""A message that comes out of a queue in which it cannot have been is found, and no other one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.soak.good import (
    DEAD,
    DYING,
    ENDED,
    ORDERS,
    History,
    guarded,
    kinds,
    ns,
    published,
    received,
)
from tests.soak.history import Event, Given, left_there

SENT = replace(published(1, 0.0), queue=DYING)


def given_from(queue: str, at: float) -> Event:
    return replace(received(1, at, f"lease-{at}", seconds=0.5), queue=queue)


def unsure(at: float, status: int | None) -> Event:
    return Event("receive", ns(at), ns(at + 0.6), status, DYING, 0.5)


def redriven(at: float, status: int | None = 200) -> Event:
    return Event("redrive", ns(at), ns(at + 0.01), status, DYING)


def buried(at: float, status: int | None = 200) -> Event:
    return replace(guarded("move", 1, at, f"lease-{at - 0.1}", status), queue=DYING)


def received_at(*times: float) -> History:
    return [given_from(DYING, at) for at in times]


ASTRAY: dict[str, History] = {
    "in another queue": [given_from(ORDERS, 1.0)],
    "in the dead letters of another queue": [given_from("orders.dead", 1.0)],
    "dead too early where the settings say": [*received_at(1.0, 2.0), given_from(ENDED, 3.0)],
    "dead too early": [*received_at(1.0, 2.0), given_from(DEAD, 3.0)],
    "dead though its burial was refused": [
        *received_at(1.0), buried(1.1, 412), given_from(DEAD, 3.0)
    ],
    "alive again": [*received_at(1.0, 2.0, 3.0), given_from(DEAD, 4.0), given_from(DYING, 5.0)],
    "alive again by an old redrive": [
        *received_at(1.0, 2.0), redriven(2.5), *received_at(3.0), given_from(DEAD, 4.0),
        given_from(DYING, 5.0),
    ],
    "alive again before it was brought back": [
        *received_at(1.0, 2.0, 3.0), given_from(DEAD, 4.0), given_from(DYING, 5.0), redriven(6.0)
    ],
    "alive for too long": received_at(1.0, 2.0, 3.0, 4.0),
    "alive for too long after it was brought back": [
        *received_at(1.0, 2.0, 3.0), given_from(DEAD, 4.0), redriven(5.0),
        *received_at(6.0, 7.0, 8.0, 9.0),
    ],
    "dead again too early": [
        *received_at(1.0, 2.0, 3.0), given_from(DEAD, 4.0), redriven(5.0), given_from(DYING, 6.0),
        given_from(DEAD, 7.0),
    ],
    "dead again by an old burial": [
        *received_at(1.0), buried(1.1), given_from(DEAD, 4.0), redriven(5.0),
        given_from(DYING, 6.0), given_from(DEAD, 7.0),
    ],
}  # fmt: skip

IN_PLACE: dict[str, History] = {
    "alive": received_at(1.0, 2.0),
    "received too often": [*received_at(1.0, 2.0, 3.0), given_from(DEAD, 4.0)],
    "in one of its queues of dead letters after the other": [
        *received_at(1.0, 2.0, 3.0), given_from(ENDED, 4.0), redriven(5.0),
        *received_at(6.0, 7.0, 8.0), given_from(DEAD, 9.0),
    ],
    "perhaps received too often": [
        *received_at(1.0), unsure(2.0, None), unsure(3.0, 204), given_from(DEAD, 4.0)
    ],
    "buried": [*received_at(1.0), buried(1.1), given_from(DEAD, 4.0)],
    "perhaps buried": [*received_at(1.0), buried(1.1, None), given_from(DEAD, 4.0)],
    "dead and received again": [
        *received_at(1.0, 2.0, 3.0), given_from(DEAD, 4.0), given_from(DEAD, 5.0)
    ],
    "dead while it was received for the last time by an answer that came later": [
        *received_at(1.0, 2.0), replace(given_from(DEAD, 3.0), ended=ns(5.0)), *received_at(3.1),
        given_from(DEAD, 6.0),
    ],
    "brought back": [
        *received_at(1.0, 2.0, 3.0), given_from(DEAD, 4.0), redriven(5.0), given_from(DYING, 6.0)
    ],
    "perhaps brought back": [
        *received_at(1.0, 2.0, 3.0), given_from(DEAD, 4.0), redriven(5.0, 503),
        given_from(DYING, 6.0),
    ],
    "not counted any more": [
        *received_at(1.0), buried(1.1, None), *received_at(2.0, 3.0)
    ],
    "perhaps brought back in between": [*received_at(1.0, 2.0), redriven(2.5), *received_at(3.0)],
    "dead once more": [
        *received_at(1.0, 2.0, 3.0), given_from(DEAD, 4.0), redriven(5.0),
        *received_at(6.0, 7.0, 8.0), given_from(DEAD, 9.0),
    ],
}  # fmt: skip


@pytest.mark.parametrize("why", ASTRAY)
@pytest.mark.parametrize("is_at_the_end", [False, True])
def test_a_message_is_astray(why: str, is_at_the_end: bool) -> None:
    *history, last = [SENT, *ASTRAY[why]]
    if is_at_the_end and last.kind == "receive":
        last = left_there(last.given, last.queue)

    assert "astray" in kinds([*history, last], [])


@pytest.mark.parametrize("why", IN_PLACE)
def test_a_message_is_where_it_belongs(why: str) -> None:
    last = IN_PLACE[why][-1]
    there = left_there([Given("id-1", "t1", "z")], last.queue)

    assert kinds([SENT, *IN_PLACE[why], there], []) == set()
