"""Answers with many messages: clients that read slowly cannot exceed a bound of the server's
memory, and others are served."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from mq.config import MIB
from mq.store.answer_memory import MAX_ANSWERS_BYTES
from tests.support.processes import Server, resident_bytes, wait_until
from tests.support.wire import Wire, make_queue, request_bytes

BODY = b"\x01" * 60_000
"""In JSON it is six times as long."""

READERS = 40

SLACK = 350 * MIB
"""The process itself, what workers are just making, and what the allocator keeps."""


@pytest.fixture
def server(start_server: Callable[..., Server]) -> Server:
    """One for each test: its memory does not shrink again."""
    return start_server()


@pytest.fixture
def slow_readers() -> Iterator[list[Wire]]:
    wires: list[Wire] = []
    yield wires
    for wire in wires:
        wire.close()


def begin_to_read(server: Server, wires: list[Wire], target: str) -> None:
    for _ in range(READERS):
        wires.append(Wire(server.port))
        wires[-1].send(request_bytes("GET", target))
    for wire in wires:
        assert wire.socket.recv(20).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("query", ["?peek&max=1000", "?max=50"])
def test_slow_readers_hold_a_bounded_memory_and_others_are_served(
    server: Server, connect: Callable[[Server], Wire], slow_readers: list[Wire], query: str
) -> None:
    wire = connect(server)
    queue = make_queue(wire)
    for _ in range(300 if "peek" in query else 50 * READERS):
        wire.publish(queue, BODY)

    begin_to_read(server, slow_readers, f"/{queue}/messages{query}")

    assert resident_bytes(server) < MAX_ANSWERS_BYTES + SLACK
    few = wire.request("GET", f"/{queue}/messages?peek&max=10")
    assert few.status == 200
    assert json.loads(few.body.splitlines()[0])["body"] == BODY.decode()
    for each in slow_readers:
        each.close()
    wait_until(
        lambda: len(wire.request("GET", f"/{queue}/messages?peek&max=20").body.splitlines()) == 20
    )
    wire.request("DELETE", f"/{queue}")


def test_a_large_message_alone_is_given_without_memory_for_it(
    server: Server, connect: Callable[[Server], Wire], slow_readers: list[Wire]
) -> None:
    wire = connect(server)
    queue = make_queue(wire)
    for _ in range(4):
        wire.publish(queue, b"b" * 8 * MIB)

    begin_to_read(server, slow_readers, f"/{queue}/messages?peek&max=1")

    assert resident_bytes(server) < MAX_ANSWERS_BYTES + SLACK
    wire.request("DELETE", f"/{queue}")
