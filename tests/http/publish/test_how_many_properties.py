"""How many properties HTTP takes, and how long they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mq.properties import MAX_PROPERTIES_BYTES
from tests.support.batches import lines_of, send_lines
from tests.support.messages import sealed_with, write_message
from tests.support.processes import Server
from tests.support.properties import properties_of, publish
from tests.support.wire import Wire, assert_problem, make_queue


@pytest.mark.parametrize("count", [1, 2, 40])
def test_eight_kibibytes_are_taken_and_one_byte_more_is_431(
    wire: Wire, queue: str, count: int
) -> None:
    names = [f"x-meta-{at:02}" for at in range(count)]
    each, rest = divmod(MAX_PROPERTIES_BYTES - sum(map(len, names)), count)
    properties = dict.fromkeys(names, "x" * each)
    properties[names[0]] += "x" * rest

    assert publish(wire, queue, properties=properties).status == 201
    assert properties_of(wire.receive(queue)) == properties
    properties[names[0]] += "x"
    answer = publish(wire, queue, properties=properties)

    assert_problem(answer, 431, "properties-too-large", "8192")
    assert wire.count(queue) == (0, 1)


@pytest.mark.parametrize("length", [8200, 16_000, 17_000, 60_000, 1_000_000])
@pytest.mark.parametrize("count", [1, 50])
def test_however_much_more_is_431_and_names_the_limit(
    server: Server, connect: Callable[[Server], Wire], length: int, count: int
) -> None:
    wire = connect(server)
    queue = make_queue(wire)

    try:
        names = [f"x-meta-{at}" for at in range(count)]
        answer = publish(wire, queue, properties=dict.fromkeys(names, "x" * (length // count)))
    except ConnectionError:
        assert length > 500_000  # it was closed before all of it was sent
    else:
        assert_problem(answer, 431, "properties-too-large", "8192")

    assert connect(server).count(queue) == (0, 0)


def test_too_many_are_431(server: Server, connect: Callable[[Server], Wire]) -> None:
    wire = connect(server)
    queue = make_queue(wire)
    properties = {f"ce-{at}": "1" for at in range(65)}
    in_a_line = send_lines(wire, queue, {"body": "a", "properties": properties})
    in_headers = publish(wire, queue, properties=properties)

    assert_problem(in_headers, 431, "properties-too-large", "64")
    assert_problem(in_a_line, 431, "properties-too-large", "line 1: ")
    assert "64" in in_a_line.json()["detail"]


def test_a_line_has_the_same_limit(wire: Wire, queue: str) -> None:
    longest = "x" * (MAX_PROPERTIES_BYTES - len("ce-id"))

    taken = send_lines(wire, queue, {"body": "a", "properties": {"ce-id": longest}})
    refused = send_lines(wire, queue, {"body": "a", "properties": {"ce-id": longest + "x"}})

    assert taken.status == 201
    assert_problem(refused, 431, "properties-too-large", "8192")
    assert properties_of(wire.receive(queue)) == {"ce-id": longest}


def test_what_is_too_long_for_headers_is_left_out_and_lines_have_it(
    server: Server, wire: Wire, queue: str
) -> None:
    """Another process than this server may store it."""
    properties = {"ce-id": "1", "x-meta-long": "x" * 500_000, "x-meta-shop": "north"}
    seal, data = sealed_with(b"body", properties)
    write_message(server.root / "queues" / queue / "by-hand", data, seal=seal)

    peeked = wire.request("GET", f"/{queue}/messages?peek")
    line = lines_of(wire.request("GET", f"/{queue}/messages?peek&max=1"))[0]
    received = wire.receive(queue)

    for answer in (peeked, received):
        assert properties_of(answer) == {"ce-id": "1", "x-meta-shop": "north"}
        assert answer.headers["x-properties-left-out"] == "1"
        assert answer.body == b"body"
    assert (line["properties"], line["body"]) == (properties, "body")
