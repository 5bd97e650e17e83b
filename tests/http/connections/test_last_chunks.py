"""A trailer behind the last chunk of a body belongs to no request, also not to the next one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.processes import Server
from tests.support.wire import (
    SMALL_BODY_BYTES,
    Wire,
    assert_problem,
    chunked,
    make_queue,
    request_bytes,
    wait_until_read,
)

SIZES = [0, 5, 3 * SMALL_BODY_BYTES]


def publish_with(queue: str, size: int, *trailers: str) -> bytes:
    head = f"POST /{queue}/messages HTTP/1.1\r\nHost: mq\r\nTransfer-Encoding: chunked\r\n\r\n"
    end = "".join(f"{each}\r\n" for each in ("0", *trailers, ""))
    return head.encode() + chunked(b"b" * size, 1000, end.encode())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("trailer", ["X-Meta-Sum: 1", "Traceparent: 00-1", "X-Message-Id: mine"])
def test_a_trailer_is_no_header_of_the_next_request(wire: Wire, size: int, trailer: str) -> None:
    queue, other = make_queue(wire), make_queue(wire)
    wire.send(publish_with(queue, size, "X-First: 1", trailer))
    assert wire.answer().status == 201

    published = wire.publish(other, b"next")

    received = wire.receive(other)
    assert received.body == b"next"
    assert published == received.headers["x-message-id"] != "mine"
    assert not {"x-meta-sum", "traceparent"} & received.headers.keys()


@pytest.mark.parametrize("trailer", ["Host: other", "If-Match: *", "User-Agent: other"])
def test_no_trailer_makes_the_next_request_a_wrong_one(wire: Wire, trailer: str) -> None:
    queue = make_queue(wire)

    for _ in range(3):
        wire.send(publish_with(queue, 5, trailer))
        assert wire.answer().status == 201
        assert wire.request("GET", f"/{queue}/messages").status == 200


@pytest.mark.parametrize("cut", range(1, 20, 3))
def test_a_trailer_that_comes_in_pieces_is_no_header_of_the_next_request(
    server: Server, wire: Wire, cut: int
) -> None:
    queue = make_queue(wire)
    publish = publish_with(queue, 5, "X-Meta-Sum: 1")

    for piece in (publish[:-cut], publish[-cut:]):
        wire.send(piece)
        wait_until_read(server, wire)
    assert wire.answer().status == 201
    wire.publish(queue)

    answers = [wire.receive(queue) for _ in range(2)]
    assert [each.status for each in answers] == [200, 200]
    assert not any("x-meta-sum" in each.headers for each in answers)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("cut", [0, 3, 12])
def test_what_comes_in_one_piece_with_a_trailer_is_not_carried_out(
    server: Server, connect: Callable[[Server], Wire], size: int, cut: int
) -> None:
    wire, witness = connect(server), connect(server)
    queue, other = make_queue(wire), make_queue(wire)
    publish = publish_with(queue, size, "X-Meta-Sum: 1")
    delete = request_bytes("DELETE", f"/{other}")

    wire.send(publish[:-1])
    wait_until_read(server, wire)
    wire.send(publish[-1:] + delete[: len(delete) - cut])
    answer = wire.answer()

    assert (answer.status, answer.headers.get("connection")) == (201, "close")
    assert wire.is_closed()
    assert witness.request("GET", f"/{other}").status == 200


@pytest.mark.parametrize("cut", [0, 3, 20])
@pytest.mark.parametrize(("size", "number"), [*((size, 3) for size in SIZES), (0, 50), (5, 50)])
def test_what_comes_behind_a_body_in_chunks_without_trailers_is_answered(
    server: Server, wire: Wire, size: int, cut: int, number: int
) -> None:
    queue = make_queue(wire)
    several = (publish_with(queue, size) + request_bytes("GET", f"/{queue}/messages")) * number

    wire.send(several[: len(several) - cut])
    if cut:
        wait_until_read(server, wire)
        wire.send(several[len(several) - cut :])

    for _ in range(number):
        assert wire.answer().status == 201
        assert wire.answer().body == b"b" * size


def test_a_body_that_looks_like_the_end_of_one_hides_no_trailer(server: Server, wire: Wire) -> None:
    queue = make_queue(wire)
    head = f"POST /{queue}/messages HTTP/1.1\r\nHost: mq\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"\r\n0\r\n\r\nPOST "

    wire.send(head.encode(), b"%x\r\n%b\r\n0\r\nX-Meta-A: 1\r\n\r\n" % (len(body), body))
    assert wire.answer().status == 201
    wire.publish(queue)

    wire.receive(queue)
    assert "x-meta-a" not in wire.receive(queue).headers


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_nor_is_one_of_a_request_before_one_for_another_protocol(
    server: Server, connect: Callable[[Server], Wire], protocol: str
) -> None:
    wire, witness = connect(server), connect(server)
    queue, other = make_queue(wire), make_queue(wire)
    upgrade = request_bytes("GET", f"/{queue}", connection="Upgrade", upgrade=protocol)

    wire.send(
        publish_with(queue, 5, "X-Meta-Sum: 1"),
        request_bytes("POST", f"/{other}/messages", b"next"),
        upgrade,
    )

    assert wire.answer().status == 201
    assert wire.is_closed()
    assert witness.count(other) == (0, 0)


def test_nothing_is_read_while_a_request_for_another_protocol_is_answered(
    server: Server, connect: Callable[[Server], Wire]
) -> None:
    """aiohttp would parse it later, and nothing here would have counted it."""
    wire, witness = connect(server), connect(server)
    queue, other = make_queue(wire), make_queue(wire)
    upgrade = {"connection": "Upgrade", "upgrade": "websocket"}

    for request in (
        request_bytes("GET", f"/{queue}/messages?wait=20", **upgrade),
        request_bytes("DELETE", f"/{other}"),
    ):
        wire.send(request)
        wait_until_read(server, wire)
    witness.publish(queue)
    answer = wire.answer()

    assert (answer.status, answer.headers.get("connection")) == (200, "close")
    assert wire.is_closed()
    assert witness.request("GET", f"/{other}").status == 200


def test_a_body_that_looks_like_the_end_of_one_ends_no_connection(wire: Wire) -> None:
    queue = make_queue(wire)
    head = f"POST /{queue}/messages HTTP/1.1\r\nHost: mq\r\nTransfer-Encoding: chunked\r\n\r\n"
    count = request_bytes("GET", f"/{queue}")
    body = b"\r\n0\r\nX: y\r\n\r\n" + count + b"\r\n0\r\n\r\n" + count

    wire.send((head.encode() + chunked(body, 1000) + count) * 2)

    assert [wire.answer().status for _ in range(4)] == [201, 200] * 2


@pytest.mark.parametrize("early", [True, False])
def test_it_hides_none_from_a_request_in_the_same_piece(
    server: Server, connect: Callable[[Server], Wire], early: bool
) -> None:
    wire, witness = connect(server), connect(server)
    queue, other = make_queue(wire), make_queue(wire)
    first = "nowhere" if early else queue
    head = f"POST /{first}/messages HTTP/1.1\r\nHost: mq\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"\r\n0\r\n\r\nPOST /%b/messages " % other.encode()
    publish = head.encode() + chunked(body, 1000, b"0\r\nX-Meta-A: 1\r\n\r\n")

    if early:
        wire.send(publish[: len(head)])
        assert wire.answer().status == 404
        publish = publish[len(head) :]
    wire.send(publish + request_bytes("POST", f"/{other}/messages", b"next"))

    if not early:
        assert wire.answer().headers.get("connection") == "close"
    assert wire.is_closed()
    assert witness.count(other) == (0, 0)


def test_requests_behind_one_that_comes_behind_chunks_are_answered(wire: Wire) -> None:
    queue = make_queue(wire)
    receives = request_bytes("GET", f"/{queue}/messages") * 5

    wire.send(publish_with(queue, 5) + receives + publish_with(queue, 5) + receives)

    statuses = [wire.answer().status for _ in range(12)]
    assert statuses == [201, 200, *[204] * 4] * 2


@pytest.mark.parametrize("number", [1, 7, 8, 9, 15, 31, 32, 33, 100])
def test_so_are_more_than_are_read_ahead(wire: Wire, number: int) -> None:
    queue = make_queue(wire)
    counts = request_bytes("GET", f"/{queue}") * number

    wire.send(counts + publish_with(queue, 5) + counts + publish_with(queue, 5) + counts)

    statuses = [wire.answer().status for _ in range(3 * number + 2)]
    assert statuses == [*[200] * number, 201] * 2 + [200] * number


@pytest.mark.parametrize("body", [b"", b"body"])
def test_requests_in_pieces_around_a_body_in_chunks_are_answered(
    server: Server, wire: Wire, body: bytes
) -> None:
    queue = make_queue(wire)
    head = request_bytes("PUT", f"/{queue}", body)
    stream = head * 2 + publish_with(queue, 5) + head * 2

    for cut in range(1, len(stream), 7):
        wire.send(stream[:cut])
        wait_until_read(server, wire)
        wire.send(stream[cut:])
        assert [wire.answer().status for _ in range(5)] == [200, 200, 201, 200, 200]


def test_empty_lines_between_requests_are_passed_over(wire: Wire) -> None:
    queue = make_queue(wire)
    count = request_bytes("GET", f"/{queue}")

    wire.send(b"\r\n\r\n".join([b"", count, publish_with(queue, 5), count, count, b""]))

    assert [wire.answer().status for _ in range(4)] == [200, 201, 200, 200]
    assert wire.request("GET", f"/{queue}").status == 200


def test_one_that_may_come_behind_a_trailer_ends_a_connection_that_is_idle(wire: Wire) -> None:
    """Its client would otherwise wait for its answer until the time for a head is over. This one
    is not found where the body ended, because it has two spaces."""
    queue = make_queue(wire)
    count = request_bytes("GET", f"/{queue}").replace(b" ", b"  ", 1)
    wire.send(count, publish_with(queue, 5), count[:1])
    assert [wire.answer().status for _ in range(2)] == [200, 201]

    wire.send(count[1:])

    assert wire.is_closed()


def test_a_broken_trailer_is_400(wire: Wire) -> None:
    queue = make_queue(wire)

    wire.send(publish_with(queue, 5, "no colon"))

    assert_problem(wire.answer(), 400, "bad-http", "no colon")
    assert wire.is_closed()
