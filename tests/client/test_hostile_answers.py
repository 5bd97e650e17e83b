"""Answers that no server of MQ gives. What they lead to is always a ClientError."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing

import pytest

from mq.client import Client, ClientError, Queue, UnexpectedAnswer
from tests.support.breaking import Breaking

ID = "01a1fd26-2a71-7b43-8a4e-0cbd4d3f9c11"
LEASE = "0f9e8d7c6b5a4938"
TIME = "2026-11-21T08:08:19.313206Z"
LINE = {
    "id": ID, "lease": LEASE, "published_at": TIME, "visible_at": TIME, "state": "ready",
    "receive_count": 1, "body": "coffee",
}  # fmt: skip
COUNTS = {"queue": "orders", "ready": 1, "leased": 2, "delayed": 3, "oldest_age_seconds": 4.5}
FAILED = {"id": ID, "status": 404, "type": "urn:mq:problem:message-not-found"}
NESTED = b"[" * 100_000
PAGE = b"<html>Please log in.</html>"
MESSAGE = {
    "X-Message-Id": ID, "ETag": f'"{LEASE}"', "X-Published-At": TIME, "X-Visible-At": TIME,
}  # fmt: skip


NO_HEADERS: Mapping[str, str] = {}


def answer(body: bytes = b"", status: int = 200, headers: Mapping[str, str] = NO_HEADERS) -> bytes:
    head = {"Content-Length": str(len(body)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode("latin-1") + body


def written(**members: object) -> bytes:
    return answer(json.dumps(members).encode())


def receive_and_extend(queue: Queue) -> None:
    message = queue.receive()
    assert message is not None
    message.extend()


def receive_many_and_ack(queue: Queue) -> None:
    for message in queue.receive_many(5):
        message.ack()


def publish(queue: Queue) -> object:
    return queue.publish("one")


def create(queue: Queue) -> object:
    return queue.create()


def delete(queue: Queue) -> None:
    queue.delete()


def settings(queue: Queue) -> object:
    return queue.settings()


def counts(queue: Queue) -> object:
    return queue.counts()


def purge(queue: Queue) -> object:
    return queue.purge()


def peek(queue: Queue) -> object:
    return queue.peek()


def peek_at(queue: Queue) -> object:
    return queue.peek_at("a")


def receive(queue: Queue) -> object:
    return queue.receive()


def receive_many(queue: Queue) -> object:
    return queue.receive_many(5)


def move(queue: Queue) -> object:
    return queue.move("returns")


def ack_many(queue: Queue) -> object:
    return queue.ack_many({ID: LEASE, "other": LEASE})


HOSTILE: dict[str, tuple[Callable[[Queue], object], list[bytes]]] = {
    "counts, nested deeply": (counts, [answer(NESTED)]),
    "counts, text": (counts, [written(**COUNTS | {"ready": "1"})]),
    "counts, no end of them": (counts, [written(**COUNTS | {"ready": 1e999})]),
    "counts, an age without end": (counts, [written(**COUNTS | {"oldest_age_seconds": 1e999})]),
    "counts, an age of digits": (counts, [written(**COUNTS | {"oldest_age_seconds": 10**400})]),
    "an error, nested deeply": (publish, [answer(NESTED, 400)]),
    "a message, under another id": (publish, [answer(status=201, headers={"X-Message-Id": "b"})]),
    "a new queue, a page": (create, [answer(PAGE, 200)]),
    "a deletion, a page": (delete, [answer(PAGE, 200)]),
    "a move, nested deeply": (move, [answer(NESTED)]),
    "a move, without end": (move, [written(moved=1e999)]),
    "a purge, nested deeply": (purge, [answer(NESTED)]),
    "an outcome, nested deeply": (ack_many, [answer(NESTED, 207)]),
    "settings, a number as a queue": (settings, [written(settings={"dead-letters": 5})]),
    "settings, a path as a queue": (settings, [written(settings={"dead-letters": "../x"})]),
    "a line, nested deeply": (receive_many, [answer(NESTED)]),
    "a line, a count without end": (receive_many, [written(**LINE | {"receive_count": 1e999})]),
    "a line, a type that is a list": (receive_many, [written(**LINE | {"content_type": ["a"]})]),
    "a line, an origin that is a number": (receive_many, [written(**LINE | {"dead_from": 5})]),
    "a line, a time without a zone": (
        receive_many, [written(**LINE | {"published_at": "2026-11-21T08:08:19"})],
    ),
    "a lease that is a header": (
        receive_many_and_ack, [written(**LINE | {"lease": '"\r\nX-Evil: 1'})],
    ),
    "a lease that is not ASCII": (
        receive_many_and_ack, [written(**LINE | {"lease": "\u20ac" * 16})],
    ),
    "an id that is a path": (receive_many_and_ack, [written(**LINE | {"id": "\u20ac/../x"})]),
    "a peek, a type that is a list": (peek, [written(**LINE | {"content_type": ["a"]})]),
    "a peek, a count that is text": (peek, [written(**LINE | {"receive_count": "many"})]),
    "a peek, a time that is a number": (peek, [written(**LINE | {"visible_at": 5})]),
    "a look at one, without its state": (peek_at, [answer(headers=MESSAGE)]),
    "an id that is not ASCII": (receive, [answer(headers=MESSAGE | {"X-Message-Id": "\xe9"})]),
    "a lease that ends in no zone": (
        receive_and_extend,
        [
            answer(headers=MESSAGE),
            answer(headers=MESSAGE | {"X-Visible-At": "2026-11-21T08:08:19"}),
        ],
    ),
    "more bytes than numbers": (counts, [answer(status=400, headers={"Content-Length": "9" * 30})]),
    "more bytes than memory": (counts, [answer(headers={"Content-Length": "9" * 18})]),
    "a length of too many digits": (counts, [answer(headers={"Content-Length": "9" * 5000})]),
    "a chunk of too many bytes": (
        counts,
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 16 + b"\r\n{}"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_is_answered_is_an_error_of_the_client(
    connect_client: Callable[..., Client], name: str
) -> None:
    call, answers = HOSTILE[name]

    with closing(Breaking(answers)) as server:
        queue = connect_client(server.url, retry_seconds=0, timeout_seconds=5).queue("orders")
        with pytest.raises(ClientError):
            call(queue)


def test_an_outcome_without_a_status_is_no_removal(
    connect_client: Callable[..., Client],
) -> None:
    lines = b"\n".join(json.dumps(FAILED | {"id": each, "status": 0}).encode() for each in "ab")

    with closing(Breaking([answer(lines, 207)])) as server:
        queue = connect_client(server.url, retry_seconds=0).queue("orders")
        assert queue.ack_many({"a": LEASE, "b": LEASE}).keys() == {"a", "b"}


def test_a_body_whose_length_is_no_number_is_not_read_to_where_it_breaks_off(
    connect_client: Callable[..., Client],
) -> None:
    half = answer(b"half of a message", headers=MESSAGE | {"Content-Length": "+99"})

    with closing(Breaking([half])) as server:
        queue = connect_client(server.url, retry_seconds=0).queue("orders")
        with pytest.raises(UnexpectedAnswer):
            queue.receive()


def test_a_lease_that_outlives_its_renewer_is_renewed(
    connect_client: Callable[..., Client],
) -> None:
    """No thread can wait for centuries."""
    now, then = "Sat, 21 Nov 2026 08:08:19 GMT", "9999-12-31T23:59:59Z"
    far = answer(headers=MESSAGE | {"X-Visible-At": then, "Date": now})

    with closing(Breaking([far, answer(status=202)])) as server:
        message = connect_client(server.url, retry_seconds=0).queue("orders").receive()
        assert message is not None
        with message:
            pass
