"""Looks at messages, by both clients."""

from __future__ import annotations

import pytest

from mq.client import BadRequest, MessageNotFound, NewMessage, Queue
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


def test_a_message_is_looked_at_by_its_id(orders: Queue) -> None:
    shop = {"x-meta-shop": "north"}
    ready = orders.publish(b"\xff", content_type="image/x", properties=shop)
    delayed = orders.publish("two", delay=1000)
    taken = orders.receive()
    assert taken is not None

    leased, later = orders.peek_at(ready), orders.peek_at(delayed)

    assert (leased.state, leased.receive_count, leased.visible_at) == (
        "leased", 1, taken.visible_at,
    )  # fmt: skip
    assert (leased.body, leased.content_type, leased.properties) == (b"\xff", "image/x", shop)
    assert (later.id, later.body, later.state) == (delayed, b"two", "delayed")
    taken.ack()
    with pytest.raises(MessageNotFound):
        orders.peek_at(ready)
