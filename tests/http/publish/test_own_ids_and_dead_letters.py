"""Own ids of queues that share the queue of their dead letters: each queue has its own."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.wire import Wire, WireAnswer, make_queue, take


def _publish(wire: Wire, queue: str, body: str, message_id: str = "order-1") -> WireAnswer:
    return wire.request("POST", f"/{queue}/messages", body.encode(), x_message_id=message_id)


def _publish_in_batch(wire: Wire, queue: str, body: str, message_id: str = "order-1") -> WireAnswer:
    line = json.dumps({"id": message_id, "body": body}).encode()
    target = f"/{queue}/messages?batch"
    return wire.request("POST", target, line, content_type="application/x-ndjson")


def _let_die(wire: Wire, queue: str, message_id: str = "order-1") -> None:
    wire.receive(queue)
    assert take(wire, queue, message_id, "&visibility=0").status == 204
    assert wire.count(queue) == (0, 0)


@pytest.fixture
def queues(wire: Wire) -> tuple[str, str, str]:
    """Two queues, and the one that takes the dead letters of both."""
    dead = make_queue(wire)
    first, second = make_queue(wire), make_queue(wire)
    for queue in (first, second):
        wire.request("PUT", f"/{queue}?max-receives=1&dead-letters={dead}")
    return first, second, dead


Publish = Callable[[Wire, str, str], WireAnswer]

PUBLISHES: list[Publish] = [_publish, _publish_in_batch]


@pytest.mark.parametrize("publish", PUBLISHES)
@pytest.mark.parametrize("body", ["a cake", "another cake"])
@pytest.mark.parametrize("is_removed", [False, True])
def test_a_dead_letter_of_another_queue_is_no_duplicate(
    wire: Wire, queues: tuple[str, str, str], publish: Publish, body: str, is_removed: bool
) -> None:
    first, second, dead = queues
    assert _publish(wire, first, "a cake").status == 201
    _let_die(wire, first)
    if is_removed:
        assert wire.remove(dead, "order-1").status == 202

    assert publish(wire, second, body).status == 201

    assert wire.receive(second).body == body.encode()
    assert publish(wire, first, "a cake").status == 200


@pytest.mark.parametrize("publish", PUBLISHES)
def test_what_was_published_to_the_queue_of_dead_letters_is_no_duplicate(
    wire: Wire, queues: tuple[str, str, str], publish: Publish
) -> None:
    first, _, dead = queues
    assert _publish(wire, dead, "a cake").status == 201

    assert publish(wire, first, "a cake").status == 201

    assert wire.receive(first).body == b"a cake"


@pytest.mark.parametrize("publish", PUBLISHES)
def test_what_was_buried_for_a_reason_is_still_known(
    wire: Wire, queues: tuple[str, str, str], publish: Publish
) -> None:
    first, second, dead = queues
    assert _publish(wire, first, "a cake").status == 201
    move = f"/{dead}/messages?from={first}&id=order-1&reason=burnt"
    assert wire.request("POST", move).status == 200

    assert publish(wire, first, "a cake").status == 200
    assert publish(wire, second, "a cake").status == 201


@pytest.mark.parametrize("publish", PUBLISHES)
@pytest.mark.parametrize("end", ["", "remove", "purge", "lease"])
def test_a_queue_made_again_does_not_know_what_died_before(
    wire: Wire, queues: tuple[str, str, str], publish: Publish, end: str
) -> None:
    queue, _, dead = queues
    assert _publish(wire, queue, "a cake").status == 201
    _let_die(wire, queue)
    if end == "remove":
        assert wire.remove(dead, "order-1").status == 202
    if end == "purge":
        assert wire.request("DELETE", f"/{dead}?purge").json() == {"purged": 1}
    if end == "lease":
        assert wire.receive(dead).status == 200
    settings = f"?max-receives=1&dead-letters={dead}"
    assert wire.request("DELETE", f"/{queue}").status == 200
    assert wire.request("PUT", f"/{queue}{settings}").status == 201

    assert publish(wire, queue, "a cake").status == 201

    assert wire.receive(queue).body == b"a cake"
    assert publish(wire, queue, "a cake").status == 200
