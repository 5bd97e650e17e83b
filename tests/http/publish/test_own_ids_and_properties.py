"""An own id stands for a body and its properties."""

from __future__ import annotations

from tests.support.batches import send_lines
from tests.support.messages import sealed_with
from tests.support.properties import PROPERTIES, publish
from tests.support.wire import Wire, assert_problem


def test_an_own_id_stands_for_body_and_properties(wire: Wire, queue: str) -> None:
    first = publish(wire, queue, properties={"X-Message-Id": "one", **PROPERTIES})
    again = publish(wire, queue, properties={"X-Message-Id": "one", **PROPERTIES})
    shuffled = dict(reversed(PROPERTIES.items()))
    reordered = publish(wire, queue, properties={"X-Message-Id": "one", **shuffled})
    fewer = publish(wire, queue, properties={"X-Message-Id": "one", "ce-type": "x"})
    none = publish(wire, queue, properties={"X-Message-Id": "one"})

    assert [first.status, again.status, reordered.status] == [201, 200, 200]
    for each in (fewer, none):
        assert_problem(each, 409, "id-taken", "other properties")
    assert wire.count(queue) == (1, 0)


def test_a_message_without_properties_is_not_one_with_some(wire: Wire, queue: str) -> None:
    publish(wire, queue, properties={"X-Message-Id": "one"})

    answer = publish(wire, queue, properties={"X-Message-Id": "one", **PROPERTIES})

    assert_problem(answer, 409, "id-taken", "other properties")


def test_a_body_that_looks_like_a_trailer_is_another_message(wire: Wire, queue: str) -> None:
    _, data = sealed_with(b"body", PROPERTIES)
    publish(wire, queue, data, {"X-Message-Id": "one"})

    answer = publish(wire, queue, b"body", {"X-Message-Id": "one", **PROPERTIES})

    assert_problem(answer, 409, "id-taken", "another body")
    assert wire.receive(queue).body == data


def test_an_own_id_within_a_batch_is_compared_too(wire: Wire, queue: str) -> None:
    line = {"id": "one", "body": "a", "properties": {"ce-id": "1"}}

    same = send_lines(wire, queue, line, line)
    other = send_lines(wire, queue, line, {**line, "properties": {"ce-id": "2"}})
    published = send_lines(wire, queue, {**line, "properties": {}})
    twice = send_lines(wire, queue, {**line, "id": "two"}, {**line, "id": "two", "properties": {}})

    assert same.status == 201
    assert_problem(other, 409, "id-taken", "line 2")
    assert_problem(published, 409, "id-taken", "line 1")
    assert_problem(twice, 409, "id-taken", "line 2")
