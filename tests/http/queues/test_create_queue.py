"""4.1 PUT /QUEUE"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.processes import Server
from tests.support.wire import MALFORMED_NAMES, Wire, assert_problem, chunked, request_bytes


def test_put_creates_a_queue_and_says_where(wire: Wire, server: Server) -> None:
    answer = wire.request("PUT", "/orders")

    assert answer.status == 201
    assert answer.headers["location"] == "/orders"
    assert answer.body == b""
    assert (server.root / "queues" / "orders").is_dir()


def test_put_of_an_existing_queue_answers_200_and_keeps_its_messages(
    wire: Wire, queue: str
) -> None:
    wire.publish(queue, b"one")

    answer = wire.request("PUT", f"/{queue}")

    assert (answer.status, answer.body) == (200, b"")
    assert "location" not in answer.headers
    assert wire.receive(queue).body == b"one"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("a", "a"),
        ("0", "0"),
        ("Z_z.9-", "Z_z.9-"),
        ("%6frders2", "orders2"),
        ("a%2Eb", "a.b"),
        ("x.dead", "x.dead"),
        ("n" * 80, "n" * 80),
        ("m" * 80 + ".dead", "m" * 80 + ".dead"),
        ("f" * 80 + ".fifo", "f" * 80 + ".fifo"),
    ],
)
def test_put_takes_every_good_name(wire: Wire, server: Server, name: str, meant: str) -> None:
    answer = wire.request("PUT", f"/{name}")

    assert answer.status == 201
    assert answer.headers["location"] == f"/{meant}"
    assert (server.root / "queues" / meant).is_dir()


@pytest.mark.parametrize("name", MALFORMED_NAMES)
def test_put_of_a_malformed_name_makes_nothing(wire: Wire, server: Server, name: str) -> None:
    before = sorted(server.root.rglob("*"))

    answer = wire.request("PUT", f"/{name}")

    assert_problem(answer, 400, "invalid-name", "queue name")
    assert sorted(server.root.rglob("*")) == before


def test_a_refused_name_stands_in_the_detail(wire: Wire) -> None:
    answer = wire.request("PUT", "/a%2fb")

    assert_problem(answer, 400, "invalid-name", "'a/b'")


@pytest.mark.parametrize(
    "body", [b"", b"DELETE / HTTP/1.1\r\n\r\n", b"b" * 300_000], ids=["empty", "small", "large"]
)
@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_put_ignores_its_body(wire: Wire, queue: str, body: bytes, framing: str) -> None:
    if framing == "length":
        wire.send(request_bytes("PUT", f"/{queue}", body))
    else:
        head = request_bytes("PUT", f"/{queue}", transfer_encoding="chunked")
        wire.send(head, chunked(body, 1000))

    assert wire.answer().status == 200
    assert wire.count(queue) == (0, 0)


def test_of_puts_at_the_same_time_one_creates(
    server: Server, connect: Callable[[Server], Wire]
) -> None:
    wires = [connect(server) for _ in range(8)]
    for each in wires:
        each.send(request_bytes("PUT", "/contested"))

    statuses = [each.answer().status for each in wires]

    assert sorted(statuses) == [200] * 7 + [201]
