"""The limits of docs/protocol.md that are HTTP's own: a request below and one above each."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.support.processes import Server
from tests.support.wire import Wire, assert_problem, request_bytes, wait_until_read


def with_header_of(length: int) -> bytes:
    return request_bytes("PUT", "/limits", x="x" * length)


def with_headers(count: int) -> bytes:
    """`Host` is one of them."""
    more = {f"x_{number}": "1" for number in range(count - 1)}
    return request_bytes("PUT", "/limits", None, **more)


def with_bytes(length: int) -> bytes:
    """A head of that many bytes."""
    bare = request_bytes(
        "PUT", "/limits", x="", **{f"x_{number}": "x" * 3000 for number in range(5)}
    )
    return request_bytes(
        "PUT", "/limits", x="x" * (length - len(bare)),
        **{f"x_{number}": "x" * 3000 for number in range(5)},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        (with_header_of(4000), with_header_of(4100)),
        (with_headers(64), with_headers(65)),
        (with_bytes(16_384), with_bytes(16_385)),
    ],
    ids=["bytes of a header", "number of headers", "bytes of a head"],
)
def test_a_head_over_a_limit_is_refused_and_its_connection_closed(
    wire: Wire, allowed: bytes, refused: bytes
) -> None:
    wire.send(allowed)
    assert wire.answer().status < 300

    wire.send(refused)
    answer = wire.answer()

    assert_problem(answer, 400, "bad-http")
    assert answer.headers["server"] == "mq"
    assert wire.is_closed()


@pytest.mark.parametrize(
    ("request_line", "headers", "named"),
    [
        (f"GET /q/messages?id={'a' * 8190}", "", "path and query have more than 8190 bytes"),
        ("GET /q", f"X-Long: {'a' * 17_000}\r\n", "the head has more than 16384 bytes"),
        ("GET /q", "X-Many: a\r\n" * 64, "the request has more than 64 headers"),
    ],
    ids=["path and query", "a header", "number of headers"],
)
def test_the_limit_is_named_not_what_the_parser_was_reading(
    wire: Wire, request_line: str, headers: str, named: str
) -> None:
    wire.send(f"{request_line} HTTP/1.1\r\nHost: mq\r\n{headers}\r\n".encode())

    assert_problem(wire.answer(), 400, "bad-http", named)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0",
        b"GET \1",
        b"GET / HTTP/1.1\r\nHost: mq\r\n\0",
        b"PUT /q HTTP/1.1\r\nHost: mq\r\nTransfer-Encoding: chunked\r\n\r\n\0",
    ],
)
def test_an_answer_to_what_is_not_http_is_short(wire: Wire, garbage: bytes) -> None:
    """It would otherwise show all that came, at several times its length."""
    wire.send(garbage + b"\0" * 200_000)

    answer = wire.answer()

    assert_problem(answer, 400, "bad-http")
    assert len(answer.body) < 5000


def test_path_and_query_may_have_8190_bytes(wire: Wire) -> None:
    target = "/q/messages?id=".ljust(8190, "a")

    assert_problem(wire.request("GET", target), 400, "invalid-name")


@pytest.mark.parametrize("refused", [with_header_of(4100), with_bytes(16_385)])
def test_a_limit_holds_for_what_waits_behind_many_pipelined_requests(
    wire: Wire, refused: bytes
) -> None:
    """The parser reads no more than some of them at a time."""
    wire.request("PUT", "/limits")
    wire.send(request_bytes("POST", "/limits/messages", b"body") * 40 + refused)

    while (answer := wire.answer()).status < 300:
        pass
    assert_problem(answer, 400, "bad-http")
    assert wire.is_closed()


@pytest.mark.parametrize("refused", [with_header_of(4100), with_bytes(16_385)])
def test_a_limit_holds_for_a_head_that_begins_behind_a_request(
    server: Server, wire: Wire, refused: bytes
) -> None:
    whole, end = request_bytes("PUT", "/limits"), -1000
    wire.send(whole * 2 + refused[:end])
    wait_until_read(server, wire)
    wire.send(refused[end:])

    assert [wire.answer().status < 300 for _ in range(2)] == [True] * 2
    assert_problem(wire.answer(), 400, "bad-http")
    assert wire.is_closed()


def test_a_head_without_an_end_is_refused_before_its_time_is_over(wire: Wire) -> None:
    """Headers that are all within their limit, sent piece by piece."""
    wire.send(b"PUT /limits HTTP/1.1\r\n")

    with suppress(ConnectionError):
        for number in range(50):  # fewer than are allowed
            wire.send(b"X-%d: %b\r\n" % (number, b"x" * 1000))

    assert_problem(wire.answer(), 400, "bad-http", "16384 bytes")
    assert wire.is_closed()


def test_a_request_line_over_the_limit_is_refused(wire: Wire) -> None:
    assert_problem(wire.request("PUT", "/" + "q" * 8100), 400, "invalid-name")

    answer = wire.request("PUT", "/" + "q" * 8200)

    assert_problem(answer, 400, "bad-http")
    assert wire.is_closed()


def test_a_content_type_over_the_limit_is_refused(wire: Wire, queue: str) -> None:
    wire.publish(queue, content_type="x" * 255)

    answer = wire.request("POST", f"/{queue}/messages", b"", content_type="x" * 256)

    assert_problem(answer, 400, "invalid-request")


def test_a_limit_holds_for_what_comes_before_a_request_for_another_protocol(wire: Wire) -> None:
    upgrade = request_bytes("GET", "/limits", connection="Upgrade", upgrade="h2c")

    wire.send(with_header_of(4100) + upgrade)

    assert_problem(wire.answer(), 400, "bad-http", "header X has more than 4096 bytes")
    assert wire.is_closed()


def test_what_comes_behind_a_request_for_another_protocol_is_over_no_limit(wire: Wire) -> None:
    upgrade = request_bytes("PUT", "/limits", connection="Upgrade", upgrade="h2c")

    wire.send(upgrade + with_header_of(4000) * 10)

    assert wire.answer().status in (200, 201)
    assert wire.is_closed()
