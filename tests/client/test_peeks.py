"""Looks at messages, by both clients."""

from __future__ import annotations

import pytest

from mq.client import BadRequest, NewMessage, Queue
from tests.support.faces import counts


def test_a_peek_changes_nothing(orders: Queue) -> None:
    ids = orders.publish_many([NewMessage(b"\xff", "image/x"), "two", "three"])

    first, second = orders.peek(2)

    assert (first.id, first.body, first.content_type) == (ids[0], b"\xff", "image/x")
    assert (second.body, second.receive_count) == (b"two", 0)
    assert counts(orders) == (3, 0, 0)


def test_a_peek_shows_what_is_leased_or_delayed(orders: Queue) -> None:
    leased, ready = orders.publish("leased"), orders.publish("ready")
    hidden = [orders.publish(body, delay=1000) for body in ("one", "two", "three")]
    taken = orders.receive()
    assert taken is not None

    [found] = orders.peek(10, state="leased")
    assert (found.id, found.state, found.visible_at) == (leased, "leased", taken.visible_at)
    assert [each.id for each in orders.peek(2, state="delayed")] == hidden[:2]
    [last] = orders.peek(2, hidden[1], state="delayed")
    assert (last.id, last.body, last.state) == (hidden[2], b"three", "delayed")
    assert last.visible_at is not None
    assert last.visible_at > last.published_at
    [found] = orders.peek(10)
    assert (found.id, found.state, found.visible_at) == (ready, "ready", None)
    with pytest.raises(BadRequest, match="ready, leased, delayed"):
        orders.peek(state="removed&max=5")  # type: ignore[arg-type]
