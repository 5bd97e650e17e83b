"""Moves that are refused, and what they leave."""

from __future__ import annotations

import pytest

from tests.support.messages import names_in
from tests.support.moves import move, moved
from tests.support.processes import Server, wait_until
from tests.support.wire import Wire, assert_problem, request_bytes

UNKNOWN = '"00c0ffee00c0ffee"'


# Refusals


@pytest.mark.parametrize(
    ("query", "detail"),
    [("&id=a&max=1", "'max'"), ("&max=0", "max"), ("&max=1001", "max"), ("&max=x", "max"),
     ("&batch", "'batch'"), ("&delay=1", "'delay'"), ("&max=1&max=1", "given twice"),
     ("&wait=1", "unknown parameter"), ("&from=b", "given twice"),
     ("&dead-from=b", "'id'"), ("&dead-from=b&max=1", "'id'")],
)  # fmt: skip
def test_parameters_that_are_wrong(
    wire: Wire, queue: str, source: str, query: str, detail: str
) -> None:
    wire.publish(source)

    assert_problem(move(wire, queue, source, query), 400, "invalid-request", detail)
    assert wire.count(source) == (1, 0)


@pytest.mark.parametrize("query", ["?id=a", "?max=1", "?reason=x", "?dead-from=b"])
def test_parameters_of_a_move_without_its_source(wire: Wire, queue: str, query: str) -> None:
    answer = wire.request("POST", f"/{queue}/messages{query}", b"body")

    assert_problem(answer, 400, "invalid-request", "'from'")
    assert wire.count(queue) == (0, 0)


@pytest.mark.parametrize("name", ["", "..", "a%2fb", "n" * 81])
def test_a_source_that_is_no_name(wire: Wire, queue: str, name: str) -> None:
    assert_problem(move(wire, queue, name), 400, "invalid-name")


def test_an_id_that_is_no_id(wire: Wire, queue: str, source: str) -> None:
    assert_problem(move(wire, queue, source, "&id=a/b"), 400, "invalid-name")
    assert_problem(move(wire, queue, source, "&id="), 400, "invalid-name")
    assert_problem(move(wire, queue, source, "&id=a,,b"), 400, "invalid-name")


def test_a_queue_that_is_missing_or_the_same(wire: Wire, queue: str) -> None:
    wire.publish(queue)

    assert_problem(move(wire, queue, "absent"), 404, "queue-not-found", "absent")
    assert_problem(move(wire, "absent", queue), 404, "queue-not-found", "absent")
    assert_problem(move(wire, queue, queue), 400, "invalid-request", "in it already")
    assert wire.count(queue) == (1, 0)


@pytest.mark.parametrize("size", [1, 600_000])
def test_a_body_is_refused_and_not_published(
    wire: Wire, queue: str, source: str, size: int
) -> None:
    wire.publish(source)

    answer = wire.request("POST", f"/{queue}/messages?from={source}", b"b" * size)

    assert_problem(answer, 400, "invalid-request", "takes no body")
    again = Wire(wire.socket.getpeername()[1])
    assert (again.count(queue), again.count(source)) == ((0, 0), (1, 0))
    again.close()


@pytest.mark.parametrize("is_split", [False, True])
def test_an_empty_body_in_chunks_is_none_whenever_it_comes(
    wire: Wire, queue: str, source: str, is_split: bool
) -> None:
    wire.publish(source)
    before = request_bytes("GET", f"/{queue}")
    head = request_bytes("POST", f"/{queue}/messages?from={source}", transfer_encoding="chunked")

    wire.send(before, head, b"" if is_split else b"0\r\n\r\n")
    assert wire.answer().status == 200
    if is_split:
        # The server has read the head by now.
        wire.send(b"0\r\n\r\n")

    answer = wire.answer()
    assert (answer.status, answer.json()) == (200, {"moved": 1})


def test_a_body_in_chunks_is_refused(wire: Wire, queue: str, source: str) -> None:
    wire.publish(source)
    head = request_bytes("POST", f"/{queue}/messages?from={source}", transfer_encoding="chunked")

    wire.send(head, b"1\r\na\r\n0\r\n\r\n")

    assert_problem(wire.answer(), 400, "invalid-request", "takes no body")
    assert (wire.count(queue), wire.count(source)) == ((0, 0), (1, 0))


def test_headers_of_other_requests_are_refused(wire: Wire, queue: str, source: str) -> None:
    own = move(wire, queue, source, x_message_id="one")
    guarded = move(wire, queue, source, if_match=UNKNOWN)

    assert_problem(own, 400, "invalid-request", "X-Message-Id")
    assert_problem(guarded, 400, "invalid-request", "If-Match")


def test_a_message_that_is_not_there(wire: Wire, queue: str, source: str) -> None:
    message_id = wire.publish(source)
    wire.remove(source, message_id)

    for absent in ("absent", message_id):
        answer = move(wire, queue, source, f"&id={absent}")
        assert_problem(answer, 404, "message-not-found", absent)


def test_a_file_of_nobody_is_left(server: Server, wire: Wire, queue: str, source: str) -> None:
    (server.root / "queues" / source / "folder").mkdir()
    wire.publish(source)

    assert moved(move(wire, queue, source)) == 1

    assert names_in(server.root / "queues" / source) == ["folder"]


def test_a_file_without_a_seal_moves_too(
    server: Server, wire: Wire, queue: str, source: str
) -> None:
    (server.root / "queues" / source / "by-hand").write_bytes(b"by hand")
    wait_until(lambda: wire.count(source) == (1, 0))

    assert moved(move(wire, queue, source)) == 1

    assert wire.receive(queue).body == b"by hand"
