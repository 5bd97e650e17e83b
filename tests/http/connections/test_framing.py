"""Where a request ends: what is refused ends the connection; nothing behind it is carried out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from mq.config import MAX_HEAD_BYTES
from tests.support.processes import Server
from tests.support.wire import (
    SMALL_BODY_BYTES,
    Wire,
    assert_problem,
    chunked,
    files_of,
    make_queue,
    request_bytes,
    wait_until_closed,
    wait_until_read,
)

LONG = b"x" * 600_000


def assert_nothing_behind_it_runs(server: Server, wire: Wire, witness: Wire, queue: str) -> None:
    """A deletion of the queue came behind the request."""
    assert wire.is_closed()
    wait_until_closed(server, wire.local_port)
    assert witness.request("GET", f"/{queue}").status == 200
    assert files_of(server, queue) == []


@pytest.mark.parametrize("method", ["POST", "GET", "PATCH"])
@pytest.mark.parametrize(
    "coding",
    [
        "Transfer-Encoding: identity, chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding:\r\nContent-Length: 14",
        "Transfer-Encoding: \t\r\nContent-Length: 14",
    ],
)
def test_a_refused_transfer_coding_ends_the_connection(
    server: Server, connect: Callable[[Server], Wire], coding: str, method: str
) -> None:
    wire, witness = connect(server), connect(server)
    queue = make_queue(witness)
    head = f"{method} /{queue}/messages HTTP/1.1\r\nHost: mq\r\n{coding}\r\n\r\n"

    wire.send(head.encode(), chunked(b"body", 4), request_bytes("DELETE", f"/{queue}"))

    assert wire.answer().status == 400
    assert_nothing_behind_it_runs(server, wire, witness, queue)


@pytest.mark.parametrize("target", ["*", "http://mq:99999/q", "http:///q"])
def test_a_target_that_cannot_be_read_is_named(wire: Wire, target: str) -> None:
    answer = wire.request("GET", target)

    assert_problem(answer, 400, "bad-http", f"the target is neither a path nor a URL: {target}")
    assert wire.is_closed()


def test_chunked_in_http_1_0_ends_the_connection(
    server: Server, connect: Callable[[Server], Wire]
) -> None:
    wire, witness = connect(server), connect(server)
    queue = make_queue(witness)
    head = f"POST /{queue}/messages HTTP/1.0\r\nConnection: keep-alive\r\n"

    wire.send(
        f"{head}Transfer-Encoding: chunked\r\n\r\n".encode(),
        chunked(b"body", 4),
        request_bytes("DELETE", f"/{queue}"),
    )

    assert wire.answer().status == 400
    assert_nothing_behind_it_runs(server, wire, witness, queue)


@pytest.mark.parametrize(("method", "path"), [("POST", "/messages"), ("GET", ""), ("PUT", "")])
def test_a_length_that_the_parser_takes_for_none_is_refused(
    server: Server, connect: Callable[[Server], Wire], method: str, path: str
) -> None:
    wire, witness = connect(server), connect(server)
    queue = make_queue(witness)
    head = f"{method} /{queue}{path} HTTP/1.1\r\nHost: mq\r\nContent-Length: {2**64 - 1}\r\n\r\n"

    wire.send(head.encode(), request_bytes("DELETE", f"/{queue}"))

    assert wire.answer().status == 400
    assert_nothing_behind_it_runs(server, wire, witness, queue)


@pytest.mark.parametrize(
    "line",
    [
        "Content-Length: 4",
        "Content-Location: a",
        "Content-Range: a",
        "Content-Type: a",
        "ETag: a",
        "Host: mq",
        "Max-Forwards: 1",
        "Server: a",
        "Transfer-Encoding: chunked",
        "User-Agent: a",
    ],
)
def test_what_may_be_there_once_is_refused_twice(
    server: Server, connect: Callable[[Server], Wire], line: str
) -> None:
    """`docs/protocol.md` lists these."""
    wire, witness = connect(server), connect(server)
    queue = make_queue(witness)
    is_chunked = line.startswith("Transfer")
    others = {"Host: mq", "Content-Length: 4"} - {line, "Content-Length: 4" if is_chunked else ""}
    lines = (f"POST /{queue}/messages HTTP/1.1", *others, line, line, "", "")

    wire.send("\r\n".join(lines).encode(), chunked(b"body", 4) if is_chunked else b"body")
    wire.send(request_bytes("DELETE", f"/{queue}"))

    assert wire.answer().status == 400
    assert_nothing_behind_it_runs(server, wire, witness, queue)


def test_nothing_behind_connect_is_a_request(
    server: Server, connect: Callable[[Server], Wire]
) -> None:
    wire, witness = connect(server), connect(server)
    queue = make_queue(witness)

    wire.send(b"CONNECT mq:80 HTTP/1.1\r\nHost: mq\r\n\r\n", request_bytes("DELETE", f"/{queue}"))

    assert wire.answer().status >= 400
    assert_nothing_behind_it_runs(server, wire, witness, queue)


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_nothing_is_read_in_the_middle_behind_a_request_for_another_protocol(
    server: Server, connect: Callable[[Server], Wire], protocol: str
) -> None:
    """The parser passes over what comes with its end, here the head of a publish. The body behind
    that is not a request."""
    wire, witness = connect(server), connect(server)
    queue = make_queue(witness)
    hidden = request_bytes("DELETE", f"/{queue}")
    publish = request_bytes("POST", f"/{queue}/messages", hidden)
    asked = request_bytes("GET", f"/{queue}", connection="Upgrade", upgrade=protocol)

    wire.send(asked, publish.removesuffix(hidden))
    answer = wire.answer()
    with suppress(OSError):
        wire.send(hidden)

    assert (answer.status, answer.headers.get("connection")) == (200, "close")
    assert_nothing_behind_it_runs(server, wire, witness, queue)


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
@pytest.mark.parametrize("end", [0, 1, 4], ids=["in one piece", "in two", "body apart"])
def test_a_request_for_another_protocol_leaves_the_connection_open(
    server: Server, wire: Wire, protocol: str, end: int
) -> None:
    """Java's client asks for HTTP/2 with each request, and keeps its connections."""
    queue = make_queue(wire)
    upgrade = {"connection": "Upgrade", "upgrade": protocol}
    publish = request_bytes("POST", f"/{queue}/messages", b"body", **upgrade)

    for _ in range(2):
        wire.send(publish[: len(publish) - end])
        if end:
            wait_until_read(server, wire)
            wire.send(publish[-end:])
        assert wire.answer().status == 201

    assert wire.request("GET", f"/{queue}", **upgrade).json()["ready"] == 2
    assert wire.request("GET", f"/{queue}/messages").body == b"body"


@pytest.mark.parametrize("size", [5, 3 * SMALL_BODY_BYTES])
@pytest.mark.parametrize(
    "framing",
    [
        lambda body: b"%x;e=%b\r\n%b\r\n0\r\n\r\n" % (len(body), LONG, body),
        lambda body: b"%x\r\n%b\r\n0;e=%b\r\n\r\n" % (len(body), body, LONG),
        lambda body: b"%x\r\n%b\r\n0\r\nX: %b\r\n\r\n" % (len(body), body, LONG),
        lambda body: (
            b"".join(b"1;e=%b\r\n%b\r\n" % (LONG[:500], body[:1]) for _ in range(200))
            + b"0\r\n\r\n"
        ),
        lambda body: (
            b"%x\r\n%b\r\n0\r\n" % (len(body), body)
            + b"".join(b"X-%d: %b\r\n" % (number, LONG[:1000]) for number in range(50))
            + b"\r\n"
        ),
    ],
    ids=["at a chunk", "at the end", "a trailer", "many short ones", "many trailers"],
)
def test_long_chunk_extensions_and_trailers_end_the_connection(
    server: Server,
    connect: Callable[[Server], Wire],
    framing: Callable[[bytes], bytes],
    size: int,
) -> None:
    wire, witness = connect(server), connect(server)
    queue = make_queue(witness)
    head = f"POST /{queue}/messages HTTP/1.1\r\nHost: mq\r\nTransfer-Encoding: chunked\r\n\r\n"

    try:
        wire.send(head.encode(), framing(b"b" * size), request_bytes("DELETE", f"/{queue}"))
        assert wire.answer().status == 400
        assert wire.is_closed()
    except ConnectionError:
        pass  # it was closed while the rest was on its way
    wait_until_closed(server, wire.local_port)

    assert witness.request("GET", f"/{queue}").status == 200
    assert files_of(server, queue) == []


@pytest.mark.parametrize("size", [1, 7, 1000, 600_000])
def test_chunks_of_any_size_are_taken(wire: Wire, queue: str, size: int) -> None:
    body = b"b" * 600_000 if size > 1 else b"b" * 50_000
    head = f"POST /{queue}/messages HTTP/1.1\r\nHost: mq\r\nTransfer-Encoding: chunked\r\n\r\n"

    for _ in range(3):
        wire.send(head.encode(), chunked(body, size))
        assert wire.answer().status == 201

    assert wire.receive(queue).body == body


def test_a_short_extension_and_a_trailer_are_passed_over(wire: Wire, queue: str) -> None:
    head = f"POST /{queue}/messages HTTP/1.1\r\nHost: mq\r\nTransfer-Encoding: chunked\r\n\r\n"

    # Together more than a head may have: what one request brings is not counted for the next.
    for _ in range(MAX_HEAD_BYTES // 2000 + 2):
        wire.send(head.encode(), b"4;e=%b\r\nbody\r\n0\r\nX: y\r\n\r\n" % LONG[:2000])
        assert wire.answer().status == 201


PUBLISH, BODY_BYTES = "POST /{}/messages HTTP/1.1\r\nHost: mq\r\n{}\r\n\r\n", 600_000
WHOLE = {
    "small": ("Content-Length: 4", b"body"),
    "large": (f"Content-Length: {BODY_BYTES}", b"b" * BODY_BYTES),
    "chunked": ("Transfer-Encoding: chunked", chunked(b"body", 4)),
}
BROKEN = {
    "no HTTP": b"hello\r\n\r\n",
    "a long header": b"GET / HTTP/1.1\r\nHost: mq\r\nX: %b\r\n\r\n" % LONG[:5000],
    "a broken chunk": b"PUT / HTTP/1.1\r\nHost: mq\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("before", [0, 3, -3], ids=["in one piece", "3 pieces", "from its end on"])
def test_a_request_that_came_with_a_broken_one_is_answered_and_done_or_neither(
    server: Server, connect: Callable[[Server], Wire], kind: str, before: int, broken: bytes
) -> None:
    """`before` is how much of a request came by itself, as read before the rest was sent."""
    wire, witness = connect(server), connect(server)
    queue = make_queue(witness)
    framing, body = WHOLE[kind]
    publish = PUBLISH.format(queue, framing).encode() + body
    if before:
        wire.send(publish[:before])
        wait_until_read(server, wire)

    wire.send(publish[before:] + publish + broken)

    statuses: list[int] = []
    while not statuses or statuses[-1] != 400:
        statuses.append(wire.answer().status)
    assert wire.is_closed()
    wait_until_closed(server, wire.local_port)
    assert statuses == [201] * len(files_of(server, queue)) + [400]


def test_an_error_of_framing_is_answered_before_the_end(wire: Wire, queue: str) -> None:
    head = f"POST /{queue}/messages HTTP/1.1\r\nHost: mq\r\nTransfer-Encoding: chunked\r\n\r\n"

    wire.send(head.encode(), b"5;e=%b" % LONG[: MAX_HEAD_BYTES + 100])

    answer = wire.answer()
    assert answer.status == 400
    assert "chunk extensions" in answer.json()["detail"]
    assert wire.is_closed()
