"""HTTP itself: paths, methods, framing, versions, and requests that are not HTTP (RFC 9110, RFC
9112)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.processes import Server
from tests.support.wire import Wire, assert_problem, request_bytes, wait_until_read

QUEUE_METHODS = {"GET", "HEAD", "PUT", "DELETE"}
MESSAGES_METHODS = {"GET", "POST"}
MESSAGE_METHODS = {"DELETE"}
EVERY_METHOD = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"]


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
    [
        (path, method, allowed)
        for path, allowed in [
            ("/{queue}", QUEUE_METHODS),
            ("/absent", QUEUE_METHODS),
            ("/{queue}/messages", MESSAGES_METHODS),
            ("/{queue}/messages/1", MESSAGE_METHODS),
        ]
        for method in EVERY_METHOD
        if method not in allowed
    ],
)
def test_another_method_is_405_and_says_which_are_allowed(
    wire: Wire, queue: str, path: str, method: str, allowed: set[str]
) -> None:
    answer = wire.request(method, path.format(queue=queue))

    assert set(answer.headers["allow"].split(", ")) == allowed
    if method == "HEAD":
        assert (answer.status, answer.body) == (405, b"")
    else:
        assert_problem(answer, 405, "method-not-allowed", "GET" if "GET" in allowed else "DELETE")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "//messages",
        "/{queue}/",
        "/{queue}/other",
        "/{queue}/Messages",
        "/{queue}/messages/",
        "/{queue}/messages/1/2",
        "/../messages/1/2",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/?queue={queue}",
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE", "PATCH"])
def test_an_unknown_path_is_404(
    wire: Wire, server: Server, queue: str, path: str, method: str
) -> None:
    before = sorted(server.root.rglob("*"))

    answer = wire.request(method, path.format(queue=queue))

    assert_problem(answer, 404, "unknown-path", "/QUEUE/messages")
    assert sorted(server.root.rglob("*")) == before


def test_escapes_in_a_path_are_decoded(wire: Wire, queue: str) -> None:
    message_id = wire.publish(queue)
    escaped = "".join(f"%{ord(letter):02x}" for letter in message_id)

    assert wire.request("GET", f"/{queue.replace('q', '%71')}").status == 200
    assert wire.request("GET", f"/{queue}/m%65ssages").status == 200
    assert wire.request("DELETE", f"/{queue}/messages/{escaped}").status == 202


def test_the_absolute_form_is_a_path_too(wire: Wire, queue: str) -> None:
    published = wire.request("POST", f"http://mq:80/{queue}/messages", b"body")
    bad_name = wire.request("PUT", "http://mq/a%2fb")

    assert published.status == 201
    assert wire.request("GET", f"http://mq/{queue}/messages").body == b"body"
    assert_problem(bad_name, 400, "invalid-name", "'a/b'")
    assert_problem(wire.request("GET", "http://mq"), 404, "unknown-path")


@pytest.mark.parametrize("host", ["xn--a", "xn--", "xn--a-.mq", "mq.xn--zz!"])
def test_a_host_that_cannot_be_decoded_is_another_one(wire: Wire, queue: str, host: str) -> None:
    for _ in range(2):
        answer = wire.request("GET", f"http://{host}/{queue}")
        assert_problem(answer, 421, "unknown-host", host)

    assert wire.request("CONNECT", f"{host}:80").status == 404
    assert wire.is_closed()


@pytest.mark.parametrize(
    "garbage",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + bytes(60),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /q HTTP/9.9\r\nHost: mq\r\n\r\n",
        b"GET /q HTTP/2.0\r\nHost: mq\r\n\r\n",
        b"POST /q/messages HTTP/2.0\r\nHost: mq\r\nContent-Length: 1\r\n\r\na",
        b"GET /q HTTP/0.9\r\nHost: mq\r\n\r\n",
        b"GET /q RTSP/1.0\r\nHost: mq\r\n\r\n",
        b"POST /q/messages RTSP/1.0\r\nHost: mq\r\nContent-Length: 1\r\n\r\na",
        b"GET /q\r\n\r\n",
        b"GET q HTTP/1.1\r\nHost: mq\r\n\r\n",
        b"PUT /a\0b HTTP/1.1\r\nHost: mq\r\n\r\n",
        b"PUT /a\xffb HTTP/1.1\r\nHost: mq\r\n\r\n",
        b"COFFEE /q HTTP/1.1\r\nHost: mq\r\n\r\n",
        b"GET /q HTTP/1.1\r\nHost: mq\r\nX: a\0b\r\n\r\n",
        b"GET /q HTTP/1.1\r\nHost: mq\r\nX : a\r\n\r\n",
        b"GET /q HTTP/1.1\r\nHost: mq\r\nX: a\r\n folded\r\n\r\n",
        b"GET /q HTTP/1.1\r\n\r\n",
        b"GET /" + b"q" * 20_000 + b" HTTP/1.1\r\nHost: mq\r\n\r\n",
        b"GET /q HTTP/1.1\r\nHost: mq\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET /q HTTP/1.1\r\nHost: mq\r\n" + b"X: x\r\n" * 1000 + b"\r\n",
    ],
    ids=lambda garbage: repr(garbage[:40]),
)
def test_what_is_no_http_is_400_and_ends_the_connection(
    server: Server, connect: Callable[[Server], Wire], garbage: bytes
) -> None:
    wire = connect(server)
    wire.send(garbage)

    answer = wire.answer()
    assert_problem(answer, 400, "bad-http")
    assert answer.version in ("HTTP/1.0", "HTTP/1.1")
    assert wire.is_closed()
    assert connect(server).request("PUT", "/alive").status in (200, 201)


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: -1",
        "Content-Length: +5",
        "Content-Length: 5, 5",
        "Content-Length: 0x5",
        "Content-Length: five",
        "Content-Length:",
        "Content-Length: 99999999999999999999",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: chunked, gzip",
    ],
)
def test_a_length_that_can_be_read_in_two_ways_is_400(
    wire: Wire, server: Server, queue: str, framing: str
) -> None:
    head = f"POST /{queue}/messages HTTP/1.1\r\nHost: mq\r\n{framing}\r\n\r\n"
    wire.send(head.encode(), b"0\r\n\r\nbody")

    assert_problem(wire.answer(), 400, "bad-http")
    assert wire.is_closed()
    assert list((server.root / "queues" / queue).iterdir()) == []


def test_a_transfer_coding_that_is_not_undone_is_refused(
    wire: Wire, server: Server, queue: str
) -> None:
    """Stored as it came, the message would be what no receiver expects."""
    head = (
        f"POST /{queue}/messages HTTP/1.1\r\nHost: mq\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
    )
    wire.send(head.encode(), b"4\r\nbody\r\n0\r\n\r\n")

    assert_problem(wire.answer(), 400, "invalid-request", "Transfer-Encoding")
    assert list((server.root / "queues" / queue).iterdir()) == []


def test_a_body_is_never_read_as_a_request(wire: Wire, queue: str) -> None:
    hidden = request_bytes("DELETE", f"/{queue}")

    for method, path in [("GET", ""), ("GET", "/messages"), ("PATCH", ""), ("POST", "/messages")]:
        wire.request(method, f"/{queue}{path}", hidden)

    assert wire.count(queue) == (1, 0)


def test_pipelined_requests_are_answered_in_order(wire: Wire, queue: str) -> None:
    bodies = [b"%d" % number for number in range(100)]
    target = f"/{queue}/messages"
    wire.send(
        *(request_bytes("POST", target, body) for body in bodies),
        request_bytes("GET", f"/{queue}"),
        *(request_bytes("GET", target) for _ in bodies),
        request_bytes("GET", target),
        request_bytes("DELETE", f"/{queue}"),
    )

    assert [wire.answer().status for _ in bodies] == [201] * 100
    assert wire.answer().json()["ready"] == 100
    assert [wire.answer().body for _ in bodies] == bodies
    assert [wire.answer().status, wire.answer().status] == [204, 200]


def test_pipelined_large_bodies_are_answered_in_order(wire: Wire, queue: str) -> None:
    bodies = [bytes([number]) * 600_000 for number in range(4)]
    wire.send(*(request_bytes("POST", f"/{queue}/messages", body) for body in bodies))
    wire.send(request_bytes("GET", f"/{queue}/messages") * 4)

    assert [wire.answer().status for _ in bodies] == [201] * 4
    assert [wire.answer().body for _ in bodies] == bodies


@pytest.mark.parametrize(
    "behind",
    [
        request_bytes("GET", "/absent"),
        request_bytes("POST", "/absent/messages", b"b" * 1000),
    ],
    ids=["short", "over the limit of a head together"],
)
def test_all_that_is_pipelined_behind_the_end_of_a_body_is_answered(
    server: Server, wire: Wire, queue: str, behind: bytes
) -> None:
    """aiohttp takes a request when its head is there, and its parser reads a few at a time."""
    publish, half = request_bytes("POST", f"/{queue}/messages", b"b" * 2000), -1000
    wire.send(publish[:half])
    wait_until_read(server, wire)
    wire.send(publish[half:] + behind * 70)

    assert wire.answer().status == 201
    assert [wire.answer().status for _ in range(70)] == [404] * 70


def test_a_request_may_come_byte_by_byte(wire: Wire, queue: str) -> None:
    for byte in request_bytes("POST", f"/{queue}/messages", b"slow"):
        wire.send(bytes([byte]))

    assert wire.answer().status == 201
    assert wire.receive(queue).body == b"slow"


def test_an_error_leaves_the_connection_open(wire: Wire, queue: str) -> None:
    for method, path in [("GET", "/absent"), ("PUT", "/.."), ("PATCH", f"/{queue}"), ("GET", "/")]:
        assert wire.request(method, path).status >= 400

    assert wire.request("GET", f"/{queue}").status == 200


def test_the_client_may_ask_to_close(wire: Wire, queue: str) -> None:
    answer = wire.request("GET", f"/{queue}", connection="close")

    assert answer.status == 200
    assert answer.headers["connection"] == "close"
    assert wire.is_closed()


@pytest.mark.parametrize("size", [5, 1_000_000])
def test_an_old_client_publishes_and_receives(
    server: Server, connect: Callable[[Server], Wire], queue: str, size: int
) -> None:
    target = f"/{queue}/messages".encode()
    producer, consumer = connect(server), connect(server)

    producer.send(b"POST %b HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % (target, size), b"b" * size)
    assert producer.answer().status == 201
    assert producer.is_closed()

    consumer.send(b"GET %b HTTP/1.0\r\n\r\n" % target)
    answer = consumer.answer()
    assert (answer.version, answer.status) == ("HTTP/1.0", 200)
    assert answer.body == b"b" * size
    assert consumer.is_closed()


def test_an_old_client_may_keep_the_connection(wire: Wire, queue: str) -> None:
    for _ in range(2):
        wire.send(f"GET /{queue} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".encode())
        answer = wire.answer()
        assert answer.status == 200
        assert answer.headers["connection"] == "keep-alive"


def test_an_old_client_never_gets_100(wire: Wire, queue: str) -> None:
    head = f"POST /{queue}/messages HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"

    wire.send(head.encode(), b"body")

    assert wire.answer().status == 201


def test_an_upgrade_is_declined(wire: Wire, queue: str) -> None:
    upgrade = {"connection": "Upgrade", "upgrade": "websocket"}

    assert wire.request("GET", f"/{queue}", **upgrade).status == 200
    assert wire.request("GET", f"/{queue}").status == 200
