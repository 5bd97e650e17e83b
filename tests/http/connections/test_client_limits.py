"""What clients may take: connections, time for a head and a body, messages in a queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.processes import Server, wait_until
from tests.support.wire import (
    SMALL_BODY_BYTES,
    Wire,
    assert_problem,
    files_of,
    has_answer,
    make_queue,
    request_bytes,
    wait_until_closed,
    wait_without_answer,
)


@pytest.fixture(scope="module")
def impatient_server(start_shared: Callable[..., Server]) -> Server:
    return start_shared("--header-timeout=0.3", "--body-timeout=0.3")


@pytest.fixture
def impatient(impatient_server: Server, connect: Callable[[Server], Wire]) -> Wire:
    return connect(impatient_server)


# Heads


@pytest.mark.parametrize("beginning", [b"G", b"GET /orders HTTP/1.1\r\n", b"\r\n\r\n"])
def test_a_head_that_stops_is_408_and_the_connection_closed(
    impatient: Wire, beginning: bytes
) -> None:
    impatient.send(beginning)

    assert_problem(impatient.answer(), 408, "request-timeout", "--header-timeout")
    assert impatient.is_closed()


def test_a_head_that_trickles_is_408(impatient_server: Server, impatient: Wire) -> None:
    """Each byte would be in time; all of them are not."""
    head = iter(request_bytes("GET", "/orders", None, **{f"x_{n}": "y" * 50 for n in range(100)}))

    def is_answered() -> bool:
        try:
            impatient.send(bytes([next(head)]))
        except OSError:
            return True
        return has_answer(impatient)

    wait_until(is_answered)

    assert_problem(impatient.answer(), 408, "request-timeout")


def test_a_connection_without_a_request_is_closed_in_silence(
    impatient_server: Server, impatient: Wire
) -> None:
    assert impatient.is_closed()


def test_a_connection_may_be_idle_between_requests(impatient: Wire) -> None:
    queue = make_queue(impatient)
    wait_without_answer(0.6, impatient)

    assert impatient.request("GET", f"/{queue}").status == 200
    impatient.send(b"GET /")
    assert_problem(impatient.answer(), 408, "request-timeout")


def test_a_body_that_comes_after_its_answer_is_not_the_beginning_of_a_head(impatient: Wire) -> None:
    impatient.send(request_bytes("PUT", "/orders", content_length="8"))
    assert impatient.answer("PUT").status in (200, 201)
    impatient.send(b"body")
    wait_without_answer(0.6, impatient)
    impatient.send(b"body")
    wait_without_answer(0.6, impatient)

    assert impatient.request("GET", "/orders").status == 200


def test_a_long_poll_is_no_slow_client(impatient: Wire) -> None:
    queue = make_queue(impatient)

    assert impatient.request("GET", f"/{queue}/messages?wait=1").status == 204


# Bodies


@pytest.mark.parametrize("sent", [0, 10, 2 * SMALL_BODY_BYTES])
def test_a_body_that_stops_is_408_and_leaves_nothing(
    impatient_server: Server, impatient: Wire, sent: int
) -> None:
    queue = make_queue(impatient)
    head = request_bytes("POST", f"/{queue}/messages", content_length=str(sent + 1))

    impatient.send(head, b"b" * sent)

    assert_problem(impatient.answer(), 408, "request-timeout", "--body-timeout")
    assert impatient.is_closed()
    assert files_of(impatient_server, queue) == []


def test_a_batch_that_stops_is_408(impatient_server: Server, impatient: Wire) -> None:
    queue = make_queue(impatient)
    head = request_bytes(
        "POST", f"/{queue}/messages?batch", transfer_encoding="chunked",
        content_type="application/x-ndjson",
    )  # fmt: skip

    impatient.send(head, b'f\r\n{"body": "one"}\r\n')

    assert_problem(impatient.answer(), 408, "request-timeout")
    assert files_of(impatient_server, queue) == []


def test_a_slow_body_that_goes_on_is_taken(
    start_shared: Callable[..., Server], connect: Callable[[Server], Wire]
) -> None:
    wire = connect(start_shared("--body-timeout=1"))
    queue = make_queue(wire)
    wire.send(request_bytes("POST", f"/{queue}/messages", content_length="12"))

    for _ in range(12):
        wait_without_answer(0.1, wire)
        wire.send(b"b")

    assert wire.answer().status == 201


# Connections


@pytest.fixture
def narrow(start_server: Callable[..., Server]) -> Iterator[Server]:
    server = start_server("--max-connections=2")
    yield server
    assert "Traceback" not in server.log()


def test_a_connection_too_many_is_answered_503_and_closed(
    narrow: Server, connect: Callable[[Server], Wire]
) -> None:
    wires = [connect(narrow) for _ in range(2)]
    queue = make_queue(wires[0])
    wires[1].receive(queue)

    refused = connect(narrow).request("GET", f"/{queue}/messages")

    assert_problem(refused, 503, "unavailable", "--max-connections")
    assert int(refused.headers["retry-after"]) >= 1
    assert [wire.receive(queue).status for wire in wires] == [204, 204]


def test_when_a_client_leaves_another_may_come(
    narrow: Server, connect: Callable[[Server], Wire]
) -> None:
    wires = [connect(narrow) for _ in range(2)]
    for wire in wires:
        wire.request("PUT", "/orders")
    for _ in range(3):
        assert connect(narrow).request("GET", "/orders").status == 503
    leaving = wires[0].local_port
    wires[0].close()
    wait_until_closed(narrow, leaving)

    assert connect(narrow).request("GET", "/orders").status == 200


# Messages of a queue


@pytest.fixture(scope="module")
def small_server(start_shared: Callable[..., Server]) -> Server:
    return start_shared("--max-queue-messages=3")


@pytest.fixture
def small(small_server: Server, connect: Callable[[Server], Wire]) -> Wire:
    return connect(small_server)


def post(wire: Wire, queue: str, target: str = "", body: bytes = b"b", **headers: str) -> int:
    return wire.request("POST", f"/{queue}/messages{target}", body, **headers).status


def test_a_full_queue_takes_no_message_until_there_is_room(small: Wire) -> None:
    queue = make_queue(small)
    ids = [small.publish(queue) for _ in range(3)]

    answer = small.request("POST", f"/{queue}/messages", b"one too many")

    assert_problem(answer, 503, "unavailable", "--max-queue-messages")
    assert int(answer.headers["retry-after"]) >= 1
    assert small.count(queue) == (3, 0)
    small.remove(queue, ids[1])
    assert [post(small, queue), post(small, queue)] == [201, 503]
    other = make_queue(small)
    assert post(small, other) == 201


def test_a_full_queue_refuses_before_a_large_body_is_sent(small: Wire) -> None:
    queue = make_queue(small)
    for _ in range(3):
        small.publish(queue)

    small.send(
        request_bytes("POST", f"/{queue}/messages", content_length="1000000", expect="100-continue")
    )

    assert_problem(small.answer(), 503, "unavailable", "--max-queue-messages")


def test_a_batch_that_does_not_fit_is_refused_whole(small: Wire) -> None:
    queue = make_queue(small)
    small.publish(queue)
    line = b'{"body": "b"}\n'
    ndjson = "application/x-ndjson"

    assert post(small, queue, "?batch", line * 3, content_type=ndjson) == 503
    assert small.count(queue) == (1, 0)
    assert post(small, queue, "?batch", line * 2, content_type=ndjson) == 201
    assert small.count(queue) == (3, 0)


def test_a_message_that_was_published_before_is_200_in_a_full_queue(small: Wire) -> None:
    queue = make_queue(small)
    for each in "abc":
        assert post(small, queue, x_message_id=each) == 201

    assert post(small, queue, x_message_id="a") == 200
    assert post(small, queue, x_message_id="d") == 503


def test_what_a_mover_or_a_person_put_there_counts(small_server: Server, small: Wire) -> None:
    queue = make_queue(small)
    small.receive(queue)
    for each in "abc":
        (small_server.root / "queues" / queue / each).write_bytes(b"b")
    wait_until(lambda: small.count(queue) == (3, 0))

    assert post(small, queue) == 503


def test_many_at_once_do_not_overfill_a_queue(
    small_server: Server, connect: Callable[[Server], Wire], small: Wire
) -> None:
    queue = make_queue(small)
    wires = [connect(small_server) for _ in range(16)]
    for wire in wires:
        wire.send(request_bytes("POST", f"/{queue}/messages", b"b"))

    statuses = sorted(wire.answer().status for wire in wires)

    assert statuses == [201] * 3 + [503] * 13
