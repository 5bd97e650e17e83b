"""Properties over HTTP: request headers that come back with the message, or a member of a line."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import pytest

from mq.config import MIB, SMALL_BODY_BYTES
from tests.support.batches import lines_of, send_lines
from tests.support.messages import read_seal, seal_of
from tests.support.processes import Server, resident_bytes
from tests.support.properties import PROPERTIES, properties_of, publish
from tests.support.sites import site_on
from tests.support.wire import Wire, assert_problem, make_queue, take


@pytest.mark.parametrize("size", [0, 10, SMALL_BODY_BYTES - 1, SMALL_BODY_BYTES, 3_000_000])
def test_properties_come_back_with_each_receive_and_peek(wire: Wire, queue: str, size: int) -> None:
    body = random.Random(size).randbytes(size)
    answer = publish(wire, queue, body)
    message_id = answer.headers["x-message-id"]

    peeked = wire.request("GET", f"/{queue}/messages?peek")
    received = wire.receive(queue)
    prolonged = take(wire, queue, message_id, if_match=received.headers["etag"])
    looked_at = wire.request("GET", f"/{queue}/messages?peek&id={message_id}")
    taken = take(wire, queue, message_id)

    assert answer.status == 201
    for each in (peeked, received, prolonged, looked_at, taken):
        assert each.status == 200
        assert properties_of(each) == PROPERTIES
        assert each.headers["content-length"] == str(size)
        assert each.body == body
    assert taken.headers["x-receive-count"] == "2"


@pytest.mark.parametrize("size", [10, 600_000])
def test_lines_have_them_as_a_member(wire: Wire, queue: str, size: int) -> None:
    publish(wire, queue, b"x" * size)
    wire.publish(queue, b"none")

    peeked = lines_of(wire.request("GET", f"/{queue}/messages?peek&max=2"))
    received = lines_of(wire.request("GET", f"/{queue}/messages?max=2"))

    for lines in (peeked, received):
        assert [line.get("properties") for line in lines] == [PROPERTIES, None]
        assert [line["body"] for line in lines] == ["x" * size, "none"]


@pytest.mark.parametrize("count", [1, 3, 100])
def test_a_batch_takes_them_with_each_line(wire: Wire, queue: str, count: int) -> None:
    lines = [{"body": f"{at}", "properties": {"X-Meta-At": f"{at}"}} for at in range(count)]
    assert send_lines(wire, queue, *lines).status == 201

    found = [wire.receive(queue) for _ in range(count)]

    assert [properties_of(each) for each in found] == [
        {"x-meta-at": f"{at}"} for at in range(count)
    ]
    assert [each.body for each in found] == [b"%d" % at for at in range(count)]


def test_names_are_the_same_in_either_case_and_come_back_in_lower_case(
    wire: Wire, queue: str
) -> None:
    publish(wire, queue, properties={"X-META-Shop": "North", "CE-Id": "A"})

    assert properties_of(wire.receive(queue)) == {"x-meta-shop": "North", "ce-id": "A"}


def test_other_headers_do_not_stay(wire: Wire, queue: str) -> None:
    publish(wire, queue, properties={"X-Metadata": "1", "Cache-Control": "x", "Cert": "1"})

    assert "x-metadata" not in wire.receive(queue).headers


def test_lists_that_are_sent_in_parts_are_joined_and_others_are_refused(
    wire: Wire, queue: str
) -> None:
    head = f"POST /{queue}/messages HTTP/1.1\r\nHost: mq\r\nContent-Length: 1\r\n".encode()
    wire.send(head + b"tracestate: a=1\r\nTracestate: b=2\r\n\r\nx")
    assert wire.answer().status == 201
    wire.send(head + b"X-Meta-A: 1\r\nx-meta-a: 1\r\n\r\nx")

    assert_problem(wire.answer(), 400, "invalid-request", "x-meta-a is given twice")
    assert properties_of(wire.receive(queue)) == {"tracestate": "a=1, b=2"}


@pytest.mark.parametrize("value", ["caf\xe9", "\u2615".encode().decode("latin-1"), "a\tb", "\x80"])
def test_a_value_that_no_header_should_carry_is_refused_and_named(
    wire: Wire, queue: str, value: str
) -> None:
    answer = publish(wire, queue, properties={"X-Meta-Shop": value})

    assert_problem(answer, 400, "invalid-request", "x-meta-shop")
    assert wire.count(queue) == (0, 0)


@pytest.mark.parametrize("value", ["\x01", "\x7f", "a\x00b"])
def test_a_control_character_is_refused_by_the_parser_or_here(
    server: Server, connect: Callable[[Server], Wire], value: str
) -> None:
    wire = connect(server)
    queue = make_queue(wire)

    assert publish(wire, queue, properties={"X-Meta-Shop": value}).status == 400

    assert connect(server).count(queue) == (0, 0)


@pytest.mark.parametrize(
    ("properties", "detail"),
    [
        ([], "an object"),
        ("x", "an object"),
        ({"x-meta-a": 1}, "'x-meta-a' must be a string"),
        ({"x-meta-a": None}, "'x-meta-a' must be a string"),
        ({"color": "red"}, "'color'"),
        ({"x-meta-a b": "1"}, "'x-meta-a b'"),
        ({"x-meta-": "1"}, "'x-meta-'"),
        ({"x-meta-a": "caf\xe9"}, "'x-meta-a'"),
        ({"x-meta-a": "a\r\nETag: 1"}, "'x-meta-a'"),
        ({"x-meta-a": " a"}, "'x-meta-a'"),
        ({"x-meta-a": "1", "X-Meta-A": "1"}, "given twice"),
    ],
)
def test_a_line_with_bad_properties_is_refused_with_its_number(
    wire: Wire, queue: str, properties: object, detail: str
) -> None:
    answer = send_lines(wire, queue, {"body": "a"}, {"body": "b", "properties": properties})

    assert_problem(answer, 400, "invalid-batch", "line 2")
    assert detail in answer.json()["detail"]
    assert wire.count(queue) == (0, 0)


def test_a_batch_takes_none_from_its_own_headers(wire: Wire, queue: str) -> None:
    target = f"/{queue}/messages?batch"
    kind = "application/x-ndjson"
    refused = wire.request("POST", target, b'{"body": "a"}', content_type=kind, x_meta_shop="1")
    traced = wire.request("POST", target, b'{"body": "a"}', content_type=kind, traceparent="00")

    assert_problem(refused, 400, "invalid-request", "x-meta-shop")
    assert traced.status == 201
    assert properties_of(wire.receive(queue)) == {}


# Files


def test_the_file_of_a_message_without_properties_is_what_it_always_was(
    server: Server, wire: Wire, queue: str
) -> None:
    message_id = wire.publish(queue, b"body", user_agent="a client", accept="*/*", x_trace="1")

    path = server.root / "queues" / queue / message_id
    seal = seal_of(b"body", published_ns=read_seal(path).published_ns)
    assert path.read_bytes() == b"body"
    assert os.getxattr(path, "user.mq") == seal.pack()
    assert len(seal.pack()) == 32
    assert os.listxattr(path) == ["user.mq"]


def test_the_root_says_so_from_the_first_message_with_properties_on(
    start_server: Callable[..., Server], connect: Callable[[Server], Wire]
) -> None:
    server = start_server()
    wire = connect(server)
    queue = make_queue(wire)
    wire.publish(queue)
    wire.receive(queue)
    before = (server.root / "format").read_text()
    publish(wire, queue)

    assert (before, (server.root / "format").read_text()) == ("mq 1\n", "mq 2\n")
    seal = read_seal(next((server.root / "delay").iterdir()))
    assert not seal.is_long


def test_a_damaged_trailer_sets_the_message_aside_and_the_next_one_comes(
    server: Server, wire: Wire, queue: str
) -> None:
    for size in (4, 600_000):
        message_id = publish(wire, queue, b"x" * size).headers["x-message-id"]
        path = server.root / "queues" / queue / message_id
        data = bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(data)
    good = publish(wire, queue, b"good").headers["x-message-id"]

    peeked = wire.request("GET", f"/{queue}/messages?peek")
    received = wire.receive(queue)

    assert peeked.headers["x-damaged"] == "yes"
    assert (peeked.body, properties_of(peeked)) == (b"x" * 4, {})
    assert (received.headers["x-message-id"], properties_of(received)) == (good, PROPERTIES)
    assert len(list((server.root / "corrupt").glob(f"{queue}:*"))) == 2


async def test_a_publish_with_properties_is_quick_and_so_is_its_receive(root: Path) -> None:
    async with site_on(root) as site:
        published = await site.ask(
            "POST", "/orders/messages", b"body", traceparent="00-1-2-03", x_meta_shop="north"
        )
        received = await site.ask("GET", "/orders/messages")

        assert (published.status, received.status) == (201, 200)
        assert received.headers["x-meta-shop"] == "north"
        assert site.way.taken == ["POST", "GET"]


def test_json_of_lines_says_nothing_of_properties_that_are_not_there(
    wire: Wire, queue: str
) -> None:
    wire.publish(queue)

    answer = wire.request("GET", f"/{queue}/messages?max=1")

    assert "properties" not in json.loads(answer.body)


LARGE_BYTES = 256 * MIB
PIECE = bytes(range(256)) * (MIB // 256)


def test_the_largest_body_streams_with_its_properties(
    start_server: Callable[..., Server], quick_folder: Path
) -> None:
    server = start_server("--max-body=256MiB", root=quick_folder / "root")
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    _ask(connection, "PUT", "/large")
    headers = {**PROPERTIES, "Content-Length": str(LARGE_BYTES)}
    pieces = (PIECE for _ in range(LARGE_BYTES // MIB))

    connection.request("POST", "/large/messages", pieces, headers)
    published = connection.getresponse()
    published.read()
    connection.request("GET", "/large/messages")
    received = connection.getresponse()
    are_right = [received.read(MIB) == PIECE for _ in range(LARGE_BYTES // MIB)]

    assert (published.status, received.status) == (201, 200)
    assert all(are_right)
    assert received.read() == b""
    assert {name: received.headers[name] for name in PROPERTIES} == PROPERTIES
    assert resident_bytes(server) < LARGE_BYTES
    connection.close()


def _ask(connection: HTTPConnection, method: str, target: str) -> None:
    connection.request(method, target)
    connection.getresponse().read()


@pytest.mark.parametrize("size", [4, 600_000])
@pytest.mark.parametrize(
    "spoil",
    [lambda data: data[:-1], lambda data: data[:-40], lambda data: data + b"\n"],
    ids=["cut", "torn", "longer"],
)
def test_a_trailer_of_another_length_sets_the_message_aside(
    server: Server, wire: Wire, queue: str, size: int, spoil: Callable[[bytes], bytes]
) -> None:
    message_id = publish(wire, queue, b"x" * size).headers["x-message-id"]
    path = server.root / "queues" / queue / message_id
    path.write_bytes(spoil(path.read_bytes()))

    assert wire.receive(queue).status == 204
    assert list((server.root / "corrupt").glob(f"{queue}:*")) == [
        server.root / "corrupt" / f"{queue}:{message_id}"
    ]
