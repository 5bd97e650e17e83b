"""4.4 POST /QUEUE/messages"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable

import pytest

from tests.support.processes import Server
from tests.support.wire import (
    SMALL_BODY_BYTES,
    Wire,
    assert_problem,
    chunked,
    files_of,
    make_queue,
    request_bytes,
    wait_until_read,
)

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
both_sizes = pytest.mark.parametrize("size", [10, 3 * SMALL_BODY_BYTES], ids=["small", "large"])
"""In memory, and streamed into a file."""


@pytest.fixture(scope="module", params=[1000, 2_000_000])
def max_body_bytes(request: pytest.FixtureRequest) -> int:
    """A limit within what is handled in memory, and one far above."""
    return int(request.param)


@pytest.fixture(scope="module")
def strict_server(start_shared: Callable[..., Server], max_body_bytes: int) -> Server:
    return start_shared(f"--max-body={max_body_bytes}")


@pytest.fixture
def strict(strict_server: Server, connect: Callable[[Server], Wire]) -> Wire:
    return connect(strict_server)


def chunked_head(queue: str) -> bytes:
    return request_bytes("POST", f"/{queue}/messages", transfer_encoding="chunked")


def head_of(queue: str, length: int, **headers: str) -> bytes:
    """A publish that announces a body, without the body."""
    return request_bytes("POST", f"/{queue}/messages", content_length=str(length), **headers)


def test_a_published_message_has_an_id_and_a_location(wire: Wire, queue: str) -> None:
    answer = wire.request("POST", f"/{queue}/messages", b"hello")

    message_id = answer.headers["x-message-id"]
    assert (answer.status, answer.body) == (201, b"")
    assert UUID7.fullmatch(message_id)
    assert answer.headers["location"] == f"/{queue}/messages/{message_id}"
    assert answer.headers["cache-control"] == "no-store, no-transform"
    assert wire.request("DELETE", answer.headers["location"]).status == 202


def test_ids_increase(wire: Wire, queue: str) -> None:
    ids = [wire.publish(queue) for _ in range(50)]

    assert ids == sorted(set(ids))


@pytest.mark.parametrize("size", [0, 1, SMALL_BODY_BYTES, SMALL_BODY_BYTES + 1, 100 * 2**20])
def test_a_body_comes_back_byte_for_byte(wire: Wire, queue: str, size: int) -> None:
    body = random.Random(size).randbytes(size)
    wire.publish(queue, body)

    received = wire.receive(queue)

    # A digest: pytest would print both bodies.
    assert hashlib.sha256(received.body).digest() == hashlib.sha256(body).digest()
    assert received.headers["content-length"] == str(size)


def test_every_byte_value_comes_back(wire: Wire, queue: str) -> None:
    wire.publish(queue, bytes(range(256)))

    assert wire.receive(queue).body == bytes(range(256))


def test_without_a_length_the_body_is_empty(wire: Wire, queue: str) -> None:
    answer = wire.request("POST", f"/{queue}/messages")

    assert answer.status == 201
    assert wire.receive(queue).body == b""


def test_a_content_encoding_is_not_undone(wire: Wire, queue: str) -> None:
    wire.publish(queue, b"not gzip at all", content_encoding="gzip")

    assert wire.receive(queue).body == b"not gzip at all"


@pytest.mark.parametrize(
    ("size", "chunk_size"),
    [(0, 1), (10, 1), (SMALL_BODY_BYTES + 1, 1000), (5 * 2**20, 700_000)],
)
def test_a_chunked_body_comes_back_byte_for_byte(
    wire: Wire, queue: str, size: int, chunk_size: int
) -> None:
    body = random.Random(size).randbytes(size)

    wire.send(chunked_head(queue), chunked(body, chunk_size))

    assert wire.answer().status == 201
    assert wire.receive(queue).body == body


def test_chunk_extensions_and_trailers_are_ignored(wire: Wire, queue: str) -> None:
    wire.send(chunked_head(queue), b'3;name="value"\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n')

    assert wire.answer().status == 201
    assert wire.receive(queue).body == b"abc"


@pytest.mark.parametrize("end", [b"zz\r\n", b"-5\r\nabcde\r\n", b"2\r\nabcde\r\n", b"\r\n"])
@both_sizes
def test_a_broken_chunk_is_400_and_leaves_nothing(
    server: Server, wire: Wire, queue: str, size: int, end: bytes
) -> None:
    wire.send(chunked_head(queue), chunked(b"b" * size, 1000, b""))
    wait_until_read(server, wire)

    wire.send(b"1\r\nb\r\n", end)

    assert_problem(wire.answer(), 400, "body-unreadable", "chunk")
    assert wire.is_closed()
    assert files_of(server, queue) == []


def test_a_chunk_broken_from_the_start_is_400(wire: Wire, queue: str) -> None:
    wire.send(chunked_head(queue), b"zz\r\n")

    assert_problem(wire.answer(), 400, "bad-http", "chunk")
    assert wire.is_closed()


@both_sizes
def test_a_message_is_not_there_before_its_body_is_whole(
    server: Server, connect: Callable[[Server], Wire], wire: Wire, queue: str, size: int
) -> None:
    consumer = connect(server)
    wire.send(head_of(queue, size), b"b" * (size - 1))
    wait_until_read(server, wire)

    assert consumer.receive(queue).status == 204
    wire.send(b"b")
    assert wire.answer().status == 201
    assert consumer.receive(queue).body == b"b" * size


def test_a_body_up_to_the_limit_is_taken(strict: Wire, max_body_bytes: int) -> None:
    queue = make_queue(strict)

    strict.publish(queue, b"b" * max_body_bytes)

    assert len(strict.receive(queue).body) == max_body_bytes


def test_a_length_over_the_limit_is_413_before_the_body_is_sent(
    strict_server: Server, strict: Wire, max_body_bytes: int
) -> None:
    queue = make_queue(strict)

    strict.send(head_of(queue, max_body_bytes + 1))

    assert_problem(strict.answer(), 413, "body-too-large", str(max_body_bytes))
    assert files_of(strict_server, queue) == []


def test_chunks_up_to_the_limit_are_taken(strict: Wire, max_body_bytes: int) -> None:
    queue = make_queue(strict)

    strict.send(chunked_head(queue), chunked(b"b" * max_body_bytes, 50_000))

    assert strict.answer().status == 201


def test_chunks_over_the_limit_are_413(
    strict_server: Server, strict: Wire, max_body_bytes: int
) -> None:
    queue = make_queue(strict)

    strict.send(chunked_head(queue), chunked(b"b" * (max_body_bytes + 1), 50_000))

    assert_problem(strict.answer(), 413, "body-too-large", str(max_body_bytes))
    assert files_of(strict_server, queue) == []
    assert strict.receive(queue).status == 204


@both_sizes
def test_expect_is_answered_by_100_and_then_201(wire: Wire, queue: str, size: int) -> None:
    wire.send(head_of(queue, size, expect="100-continue"))

    assert wire.answer().status == 100
    wire.send(b"b" * size)
    assert wire.answer().status == 201
    assert wire.receive(queue).body == b"b" * size


def test_expect_without_a_queue_is_404_without_100(wire: Wire) -> None:
    wire.send(head_of("absent", 10, expect="100-continue"))

    assert_problem(wire.answer(), 404, "queue-not-found", "absent")


def test_expect_over_the_limit_is_413_without_100(strict: Wire, max_body_bytes: int) -> None:
    queue = make_queue(strict)

    strict.send(head_of(queue, max_body_bytes + 1, expect="100-continue"))

    assert_problem(strict.answer(), 413, "body-too-large")


@pytest.mark.parametrize("among", ["100-continue, 200-ok", "100-continue\r\nExpect: 200-ok"])
def test_another_expectation_is_417_beside_a_known_one(wire: Wire, queue: str, among: str) -> None:
    head = f"POST /{queue}/messages HTTP/1.1\r\nHost: mq\r\nExpect: {among}\r\n"
    wire.send(f"{head}Content-Length: 4\r\n\r\n".encode())

    assert_problem(wire.answer(), 417, "expectation-failed", "200-ok")


def test_another_expectation_is_417(wire: Wire, queue: str) -> None:
    wire.send(head_of(queue, 10, expect="200-ok"))

    assert_problem(wire.answer(), 417, "expectation-failed", "'200-ok'")


@pytest.mark.parametrize("size", [0, 10, 3 * SMALL_BODY_BYTES])
def test_a_missing_queue_is_404(wire: Wire, size: int) -> None:
    answer = wire.request("POST", "/absent/messages", b"b" * size)

    assert_problem(answer, 404, "queue-not-found", "absent")


@pytest.mark.parametrize("query", ["frobnicate=1", "delay=1&delay=1"])
def test_a_wrong_parameter_is_400_and_publishes_nothing(wire: Wire, queue: str, query: str) -> None:
    answer = wire.request("POST", f"/{queue}/messages?{query}", b"body")

    assert_problem(answer, 400, "invalid-request", "parameter")
    assert wire.receive(queue).status == 204


@pytest.mark.parametrize("name", ["..", "a%2fb", "%00", "n" * 81])
def test_a_malformed_name_is_400(wire: Wire, name: str) -> None:
    answer = wire.request("POST", f"/{name}/messages", b"body")

    assert_problem(answer, 400, "invalid-name", "queue name")


@pytest.mark.parametrize("content_type", ["t" * 256, "text/caf\xe9", "text/\tplain"])
def test_a_content_type_that_cannot_be_kept_is_400(
    wire: Wire, queue: str, content_type: str
) -> None:
    answer = wire.request("POST", f"/{queue}/messages", b"body", content_type=content_type)

    assert_problem(answer, 400, "invalid-request", "Content-Type")
    assert wire.receive(queue).status == 204


@pytest.fixture
def full(start_server: Callable[..., Server], connect: Callable[[Server], Wire]) -> Wire:
    """A server below its floor of free space. Queue `orders` has two messages from before."""
    before = start_server()
    filled = connect(before)
    filled.request("PUT", "/orders")
    filled.publish("orders", b"one")
    filled.publish("orders", b"two")
    before.kill()
    return connect(start_server("--min-free=1000000GiB"))


def test_below_the_floor_of_free_space_publish_is_503(full: Wire) -> None:
    answer = full.request("POST", "/orders/messages", b"three")

    assert_problem(answer, 503, "unavailable", "--min-free")
    assert answer.headers["retry-after"].isdigit()
    assert full.count("orders") == (2, 0)


def test_below_the_floor_a_body_that_waits_is_refused_without_100(full: Wire) -> None:
    full.send(head_of("orders", 10, expect="100-continue"))

    assert_problem(full.answer(), 503, "unavailable", "--min-free")


def test_below_the_floor_receive_and_remove_go_on(full: Wire) -> None:
    received = full.receive("orders")
    removed = full.remove("orders", received.headers["x-message-id"])

    assert (received.status, removed.status) == (200, 202)
    assert full.receive("orders").body == b"two"
