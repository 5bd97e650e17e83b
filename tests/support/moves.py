"""Moves between queues, as a client asks for them over a raw connection."""

from __future__ import annotations

from tests.support.wire import Wire, WireAnswer


def move(wire: Wire, target: str, source: str, more: str = "", **headers: str) -> WireAnswer:
    return wire.request("POST", f"/{target}/messages?from={source}{more}", None, **headers)


def moved(answer: WireAnswer) -> int:
    """Return how many messages were moved. Raises AssertionError if any stayed that was meant to
    go."""
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    number = answer.json()["moved"]
    assert answer.json() == {"moved": number}
    assert isinstance(number, int)
    return number
