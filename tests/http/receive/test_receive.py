"""4.5 GET /QUEUE/messages"""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from mq.lines.ndjson import end_line
from mq.names import MessageId, QueueName
from mq.spool.message.burial import Burial
from mq.store.receiving.received_message import Received
from mq.web.endpoints.receiving import members_of
from tests.support.processes import Server, wait_until
from tests.support.wire import Wire, WireAnswer, assert_problem, make_queue, request_bytes, take

RFC3339_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z")
LEASE = re.compile(r'"[0-9a-f]{16}"')


def time_in(answer: WireAnswer, header: str) -> datetime:
    assert RFC3339_UTC.fullmatch(answer.headers[header])
    return datetime.fromisoformat(answer.headers[header])


def receive_again(hasty: Wire, queue: str) -> WireAnswer:
    """Receive as soon as the lease has run out and the message was redelivered."""
    wait_until(lambda: hasty.count(queue)[0] > 0)
    return hasty.receive(queue)


@pytest.mark.parametrize("size", [100, 600_000])
def test_a_received_message_has_body_id_and_lease(wire: Wire, queue: str, size: int) -> None:
    message_id = wire.publish(queue, b"b" * size)

    answer = wire.receive(queue)

    assert (answer.status, answer.body) == (200, b"b" * size)
    assert answer.headers["x-message-id"] == message_id
    assert answer.headers["content-length"] == str(size)
    assert LEASE.fullmatch(answer.headers["etag"])
    assert answer.headers["x-receive-count"] == "1"
    assert answer.headers["cache-control"] == "no-store, no-transform"


def test_publication_time_is_when_it_was_published_in_utc(wire: Wire, queue: str) -> None:
    before = datetime.now(UTC)
    wire.publish(queue)
    after = datetime.now(UTC)

    published = time_in(wire.receive(queue), "x-published-at")

    # The header is cut off to microseconds.
    assert before - timedelta(microseconds=1) <= published <= after


def test_a_message_becomes_visible_again_when_the_visibility_is_over(
    wire: Wire, queue: str
) -> None:
    wire.publish(queue)
    before = datetime.now(UTC)

    answer = wire.receive(queue)

    visible = time_in(answer, "x-visible-at")
    assert timedelta(seconds=30) <= visible - before + timedelta(microseconds=1)
    assert visible - datetime.now(UTC) <= timedelta(seconds=30)


@pytest.mark.parametrize("size", [100, 600_000])
@pytest.mark.parametrize(
    "content_type",
    ["text/plain; charset=utf-8", "Application/JSON", "no type at all ;;", "t" * 255],
)
def test_the_content_type_is_kept(wire: Wire, queue: str, content_type: str, size: int) -> None:
    wire.publish(queue, b"b" * size, content_type=content_type)

    assert wire.receive(queue).headers["content-type"] == content_type


@pytest.mark.parametrize("size", [100, 600_000])
def test_without_a_content_type_it_is_octet_stream(wire: Wire, queue: str, size: int) -> None:
    wire.publish(queue, b"b" * size)

    assert wire.receive(queue).headers["content-type"] == "application/octet-stream"


def test_messages_come_in_the_order_of_publication(wire: Wire, queue: str) -> None:
    bodies = [b"%d" % number for number in range(30)]
    for body in bodies:
        wire.publish(queue, body)

    assert [wire.receive(queue).body for _ in bodies] == bodies


def test_a_large_message_keeps_its_place_in_the_order(wire: Wire, queue: str) -> None:
    bodies = [b"one", b"2" * 600_000, b"three", b"4" * 600_000]
    for body in bodies:
        wire.publish(queue, body)

    assert [wire.receive(queue).body for _ in bodies] == bodies


@pytest.mark.parametrize("size", [200_000, 500_000, 1_000_000])
def test_a_message_whose_receiver_is_cut_off_within_its_body_comes_back_at_once(
    server: Server, wire: Wire, queue: str, size: int
) -> None:
    message_id = wire.publish(queue, b"b" * size)
    with socket.socket() as narrow:
        # So the system at either end keeps less than the body.
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        narrow.connect(("127.0.0.1", server.port))
        narrow.sendall(request_bytes("GET", f"/{queue}/messages"))
        assert narrow.recv(12) == b"HTTP/1.1 200"
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    wait_until(lambda: wire.count(queue) == (1, 0))

    assert take(wire, queue, message_id).headers["x-receive-count"] == "1"


def test_an_empty_queue_answers_204(wire: Wire, queue: str) -> None:
    answer = wire.receive(queue)

    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["cache-control"] == "no-store, no-transform"


def test_a_leased_message_is_not_given_to_anybody_else(
    server: Server, connect: Callable[[Server], Wire], wire: Wire, queue: str
) -> None:
    wire.publish(queue)
    wire.receive(queue)

    assert connect(server).receive(queue).status == 204


def test_receivers_at_the_same_time_get_different_messages(
    server: Server, connect: Callable[[Server], Wire], wire: Wire, queue: str
) -> None:
    published = {wire.publish(queue) for _ in range(40)}
    wires = [connect(server) for _ in range(10)]

    for each in wires:
        each.send(request_bytes("GET", f"/{queue}/messages") * 5)
    answers = [each.answer() for each in wires for _ in range(5)]

    received = [a.headers["x-message-id"] for a in answers if a.status == 200]
    assert len(received) == 40
    assert set(received) == published


def test_each_taking_counts_and_has_a_lease_of_its_own(hasty: Wire) -> None:
    queue = make_queue(hasty)
    hasty.publish(queue)

    takings = [receive_again(hasty, queue) for _ in range(3)]

    assert [taking.headers["x-receive-count"] for taking in takings] == ["1", "2", "3"]
    assert len({taking.headers["etag"] for taking in takings}) == 3


@pytest.mark.parametrize("size", [100, 600_000])
def test_a_redelivered_message_is_the_same(hasty: Wire, size: int) -> None:
    queue = make_queue(hasty)
    hasty.publish(queue, b"b" * size, content_type="text/plain")
    first = hasty.receive(queue)

    second = receive_again(hasty, queue)

    assert second.body == first.body
    for header in ("x-message-id", "x-published-at", "content-type"):
        assert second.headers[header] == first.headers[header]


def test_a_message_comes_back_when_it_said_so_and_not_before(hasty: Wire) -> None:
    queue = make_queue(hasty)
    hasty.publish(queue)
    visible = time_in(hasty.receive(queue), "x-visible-at")

    wait_until(lambda: hasty.count(queue) == (1, 0))

    assert visible <= datetime.now(UTC)


def test_a_redelivered_message_comes_before_younger_ones(hasty: Wire) -> None:
    queue = make_queue(hasty)
    hasty.publish(queue, b"old")
    hasty.receive(queue)
    hasty.publish(queue, b"young")
    wait_until(lambda: hasty.count(queue) == (2, 0))

    hasty.send(request_bytes("GET", f"/{queue}/messages?visibility=60") * 2)

    assert [hasty.answer().body, hasty.answer().body] == [b"old", b"young"]


def test_a_missing_queue_is_404(wire: Wire) -> None:
    assert_problem(wire.receive("absent"), 404, "queue-not-found", "absent")


@pytest.mark.parametrize(
    "query", ["frobnicate=1", "visibility=5&visibility=5", "id=a&id=b", "WAIT=1", "=1"]
)
def test_a_wrong_parameter_is_400_and_receives_nothing(wire: Wire, queue: str, query: str) -> None:
    wire.publish(queue)

    answer = wire.request("GET", f"/{queue}/messages?{query}")

    assert_problem(answer, 400, "invalid-request", "parameter")
    assert wire.count(queue) == (1, 0)


def test_an_empty_query_is_none(wire: Wire, queue: str) -> None:
    wire.publish(queue)

    assert wire.request("GET", f"/{queue}/messages?").status == 200


@pytest.mark.parametrize("name", ["..", "a%2fb", "%00", "n" * 81])
def test_a_malformed_name_is_400(wire: Wire, name: str) -> None:
    assert_problem(wire.receive(name), 400, "invalid-name", "queue name")


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "DELETE"])
def test_no_other_method_consumes(wire: Wire, queue: str, method: str) -> None:
    wire.publish(queue)

    answer = wire.request(method, f"/{queue}/messages")

    assert answer.status == 405
    assert wire.count(queue) == (1, 0)


PLAIN = Received(
    QueueName("orders"), MessageId("a-1"), 4, None, None, 255, None, 10**9, 2 * 10**9, b"body"
)
SAID_OF_ALL = {
    "id": "a-1",
    "lease": "00000000000000ff",
    "published_at": "1970-01-01T00:00:01.000000Z",
    "visible_at": "1970-01-01T00:00:02.000000Z",
    "body": "body",
}


@pytest.mark.parametrize(
    ("received", "more"),
    [
        (PLAIN, {}),
        (PLAIN._replace(receive_count=3), {"receive_count": 3}),
        (PLAIN._replace(content_type='a"b\\c'), {"content_type": 'a"b\\c'}),
        (PLAIN._replace(properties={"x-meta-a": '"ü'}), {"properties": {"x-meta-a": '"ü'}}),
        (
            PLAIN._replace(burial=Burial(QueueName("first"), 'a "reason"')),
            {"dead_from": "first", "dead_reason": 'a "reason"'},
        ),
    ],
)
def test_a_line_says_what_is_known_of_its_message(
    received: Received, more: dict[str, object]
) -> None:
    line = json.loads(end_line(members_of(received), b"body"))

    assert line == {**SAID_OF_ALL, **more}
    assert list(line)[-1] == "body"
