"""Properties with both clients."""

from __future__ import annotations

import pytest

from mq.client import BadRequest, IdTaken, NewMessage, Queue
from mq.properties import MAX_PROPERTIES_BYTES
from tests.support.faces import counts
from tests.support.messages import sealed_with, write_message
from tests.support.processes import Server
from tests.support.properties import PROPERTIES

LONGEST = {"baggage": "x" * (MAX_PROPERTIES_BYTES - len("baggage"))}
WRONG = [{"color": "red"}, {"x-meta-a": "a\r\nEtag: 1"}, {"x-meta-a": "caf\xe9"}, {"ce-a b": "1"}]


@pytest.mark.parametrize("size", [4, 1_000_000])
@pytest.mark.parametrize("properties", [PROPERTIES, LONGEST, {}])
def test_properties_come_as_they_went(orders: Queue, size: int, properties: dict[str, str]) -> None:
    orders.publish(b"x" * size, properties=properties)

    (peeked,) = orders.peek()
    (message,) = orders.receive_many(1)
    message.release()
    again = orders.receive()

    assert again is not None
    for each in (peeked, message, again):
        assert (dict(each.properties), each.body) == (properties, b"x" * size)


def test_each_message_of_many_has_its_own(orders: Queue) -> None:
    orders.publish_many(
        [
            NewMessage("a", properties={"X-Meta-At": "1"}),
            b"b",
            # Too large for a batch.
            NewMessage(b"\xff" * 13_000_000, properties={"x-meta-at": "3"}),
        ]
    )

    found = [orders.receive_many(1)[0] for _ in range(3)]

    assert [each.properties for each in found] == [{"x-meta-at": "1"}, {}, {"x-meta-at": "3"}]


def test_an_encoded_body_is_left_as_it_is(orders: Queue) -> None:
    orders.publish(b"not gzip at all", properties={"Content-Encoding": "gzip"})

    message = orders.receive()

    assert message is not None
    assert message.body == b"not gzip at all"
    assert message.properties == {"content-encoding": "gzip"}


def test_the_same_id_with_other_properties_is_taken(orders: Queue) -> None:
    orders.publish("one", message_id="one", properties={"ce-id": "1"})
    orders.publish("one", message_id="one", properties={"CE-ID": "1"})

    with pytest.raises(IdTaken, match="other properties"):
        orders.publish("one", message_id="one", properties={"ce-id": "2"})


@pytest.mark.parametrize("properties", WRONG)
def test_wrong_properties_are_refused_here(orders: Queue, properties: dict[str, str]) -> None:
    name = next(iter(properties))

    with pytest.raises(BadRequest, match=name):
        orders.publish("one", properties=properties)
    with pytest.raises(BadRequest, match=name):
        orders.publish_many(["one", NewMessage("two", properties=properties)])

    assert counts(orders) == (0, 0, 0)


def test_too_many_are_refused_by_the_server_which_names_the_limit(orders: Queue) -> None:
    properties = {"baggage": LONGEST["baggage"] + "x"}

    for publish in (
        lambda: orders.publish("one", properties=properties),
        lambda: orders.publish_many([NewMessage("one", properties=properties)]),
    ):
        with pytest.raises(BadRequest, match="8192") as caught:
            publish()
        assert caught.value.problem is not None
        assert caught.value.problem.status == 431


def test_how_many_are_too_long_for_headers_is_counted_and_lines_have_all(
    orders: Queue, server: Server
) -> None:
    """Another process than the server may store them."""
    properties = {"ce-id": "1", "x-meta-long": "x" * 20_000}
    seal, data = sealed_with(b"body", properties)
    write_message(server.root / "queues" / orders.name / "by-hand", data, seal=seal)

    message = orders.receive()
    assert message is not None
    message.release()
    (whole,) = orders.receive_many(1)

    assert (message.properties, message.properties_left_out) == ({"ce-id": "1"}, 1)
    assert (whole.properties, whole.properties_left_out) == (properties, 0)


def test_a_value_that_is_not_text_is_named(orders: Queue) -> None:
    with pytest.raises(TypeError, match="property 'x-meta-a': a value is str, not int"):
        orders.publish("one", properties={"x-meta-a": 5})  # type: ignore[dict-item]
