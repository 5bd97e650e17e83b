"""A client that has sent whole requests and closes its own direction is answered."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes import Server, wait_until
from tests.support.wire import (
    SMALL_BODY_BYTES,
    Wire,
    files_of,
    make_queue,
    request_bytes,
    wait_until_closed,
    wait_until_read,
)

FOREIGN_FILES = 15_000
"""With this many, the listing that a queue's first receive waits for takes a tenth of a second."""


def half_close(wire: Wire, *data: bytes) -> None:
    wire.send(*data)
    wire.socket.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("size", [5, 3 * SMALL_BODY_BYTES])
def test_a_whole_publish_is_answered_after_a_half_close(
    server: Server, wire: Wire, queue: str, connect: Callable[[Server], Wire], size: int
) -> None:
    other = connect(server)

    half_close(other, request_bytes("POST", f"/{queue}/messages", b"b" * size))

    assert other.answer().status == 201
    assert other.is_closed()
    assert wire.receive(queue).body == b"b" * size


@pytest.mark.parametrize("size", [5, 3 * SMALL_BODY_BYTES])
@pytest.mark.parametrize("query", ["", "?max=10", "?peek", "?wait=0"])
def test_a_message_is_given_to_a_client_that_half_closed(
    server: Server, wire: Wire, connect: Callable[[Server], Wire], size: int, query: str
) -> None:
    queue = make_queue(wire)
    wire.publish(queue, b"b" * size)
    other = connect(server)

    half_close(other, request_bytes("GET", f"/{queue}/messages{query}"))

    answer = other.answer()
    assert answer.status == 200
    assert b"b" * size in answer.body
    assert other.is_closed()
    assert wire.count(queue) == ((1, 0) if query == "?peek" else (0, 1))


def test_all_pipelined_requests_are_answered_after_a_half_close(
    server: Server, queue: str, connect: Callable[[Server], Wire]
) -> None:
    other = connect(server)
    publish = request_bytes("POST", f"/{queue}/messages", b"body")

    half_close(other, publish * 40, request_bytes("GET", f"/{queue}"))

    assert [other.answer().status for _ in range(40)] == [201] * 40
    assert other.answer().json()["ready"] == 40
    assert other.is_closed()


@pytest.mark.parametrize("query", ["?wait=60", "?wait=60&max=10"])
def test_a_message_that_is_being_taken_is_given_to_a_client_that_half_closes(
    server: Server, wire: Wire, connect: Callable[[Server], Wire], query: str
) -> None:
    queue = make_queue(wire)
    for number in range(FOREIGN_FILES):
        (server.root / "queues" / queue / f"{number:05}").touch()
    other = connect(server)
    other.send(request_bytes("GET", f"/{queue}/messages{query}"))
    wait_until_read(server, other)

    other.socket.shutdown(socket.SHUT_WR)

    assert other.answer().status == 200
    assert other.is_closed()


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_long_poll_ends_after_a_half_close(
    server: Server, queue: str, connect: Callable[[Server], Wire], before: int
) -> None:
    other = connect(server)
    poll = request_bytes("GET", f"/{queue}/messages?wait=60")

    half_close(other, request_bytes("GET", f"/{queue}") * before, poll * 2)

    assert [other.answer().status for _ in range(before + 2)] == [200] * before + [204] * 2
    assert other.is_closed()


@pytest.mark.parametrize("query", ["", "?max=1", "?wait=1"])
def test_requests_behind_a_receive_are_answered_after_a_half_close(
    server: Server, wire: Wire, connect: Callable[[Server], Wire], query: str
) -> None:
    queue = make_queue(wire)
    for _ in range(3):
        wire.publish(queue)
    other = connect(server)

    half_close(
        other,
        request_bytes("GET", f"/{queue}/messages{query}") * 3,
        request_bytes("GET", f"/{queue}"),
    )

    assert [other.answer().status for _ in range(3)] == [200] * 3
    assert other.answer().json()["leased"] == 3
    assert other.is_closed()


@pytest.mark.parametrize("sent", [5, 3 * SMALL_BODY_BYTES])
def test_half_a_publish_before_a_half_close_leaves_nothing(
    server: Server, queue: str, connect: Callable[[Server], Wire], sent: int
) -> None:
    other = connect(server)
    head = request_bytes("POST", f"/{queue}/messages", content_length=str(sent + 1))

    half_close(other, head, b"b" * sent)

    wait_until_closed(server, other.local_port)
    wait_until(lambda: files_of(server, queue) == [])


def test_a_half_close_ends_an_idle_connection(
    server: Server, queue: str, connect: Callable[[Server], Wire]
) -> None:
    other = connect(server)
    assert other.request("GET", f"/{queue}").status == 200

    other.socket.shutdown(socket.SHUT_WR)

    assert other.is_closed()


def test_over_a_unix_socket_too(start_server: Callable[..., Server], tmp_path: Path) -> None:
    server = start_server(f"--socket={tmp_path / 'mq.sock'}")
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(tmp_path / "mq.sock"))
        client.sendall(request_bytes("PUT", "/orders"))
        client.shutdown(socket.SHUT_WR)
        assert client.makefile("rb").readline() == b"HTTP/1.1 201 Created\r\n"
    assert server.stop() == 0
