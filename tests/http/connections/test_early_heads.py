"""A head that begins in one piece with the request before has its time too, and no idle connection
is taken for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from itertools import product

import pytest
import uvloop
from aiohttp import web

from mq.web.answers import Answer
from mq.web.connections.connection import Limits
from mq.web.connections.http_server import HttpServer
from tests.support.processes import Server
from tests.support.wire import (
    Wire,
    assert_problem,
    request_bytes,
    wait_until_read,
    wait_without_answer,
)

REQUESTS = {
    "without a body": request_bytes("GET", "/orders"),
    "receive": request_bytes("GET", "/orders/messages"),
    "with a body": request_bytes("POST", "/orders/messages", b"body"),
    "in chunks": request_bytes("POST", "/orders/messages", transfer_encoding="chunked")
    + b"4\r\nbody\r\n0\r\n\r\n",
    "long poll": request_bytes("GET", "/empty/messages?wait=1"),
}
HEADER_SECONDS = 0.5
"""Less than the long poll takes."""


@pytest.fixture(scope="module")
def impatient_server(start_shared: Callable[..., Server]) -> Server:
    server = start_shared(f"--header-timeout={HEADER_SECONDS}")
    with closing(Wire(server.port)) as wire:
        for queue in ("orders", "empty"):
            assert wire.request("PUT", f"/{queue}").status == 201
    return server


def test_a_head_that_began_in_one_piece_with_a_request_is_408_too(
    impatient_server: Server, connect: Callable[[Server], Wire]
) -> None:
    wires = {}
    for first, beginning in product(REQUESTS, (b"G", b"GET /orders HTTP/1.1\r\n")):
        wire = wires[first, beginning] = connect(impatient_server)
        wire.send(REQUESTS[first] + beginning)

    for pair, wire in wires.items():
        assert wire.answer().status in (200, 201, 204), pair
        assert_problem(wire.answer(), 408, "request-timeout", "--header-timeout")
        assert wire.is_closed(), pair


def test_a_head_that_began_early_may_end_after_the_answer(
    impatient_server: Server, connect: Callable[[Server], Wire]
) -> None:
    wires = []
    for name, first in REQUESTS.items():
        wires.append(connect(impatient_server))
        for _ in range(2):
            wires[-1].send(first + b"GET /orders HT")
            assert wires[-1].answer().status in (200, 201, 204), name
            wires[-1].send(b"TP/1.1\r\nHost: mq\r\n\r\n")
            assert wires[-1].answer().status == 200, name

    wait_without_answer(2 * HEADER_SECONDS, *wires)


def test_requests_that_come_in_pieces_leave_a_connection_idle(
    impatient_server: Server, connect: Callable[[Server], Wire]
) -> None:
    wires = {}
    for second, cut in product(REQUESTS, (1, 3, 4, 6, 30)):
        wire = wires[second, cut] = connect(impatient_server)
        both = REQUESTS["with a body"] + REQUESTS[second]
        wire.send(both[:-cut])
        wait_until_read(impatient_server, wire)
        wire.send(both[-cut:])

    for pair, wire in wires.items():
        assert wire.answer().status == 201, pair
        assert wire.answer().status in (200, 201, 204), pair
    wait_without_answer(2 * HEADER_SECONDS, *wires.values())


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_it_is_408_on_each_event_loop(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def answer(request: web.BaseRequest) -> Answer:
        return Answer(204)

    async def play() -> bytes:
        http = HttpServer(answer, Limits(header_timeout_seconds=0.1))
        listening = await asyncio.get_running_loop().create_server(http, "127.0.0.1", 0)
        async with listening, asyncio.timeout(20):
            address = listening.sockets[0].getsockname()
            reader, writer = await asyncio.open_connection(*address)
            writer.write(request_bytes("GET", "/orders") + b"G")
            said = await reader.read()
            writer.close()
        return said

    with asyncio.Runner(loop_factory=new_loop) as runner:
        said = runner.run(play())

    assert [line for line in said.split(b"\r\n") if line.startswith(b"HTTP/1.1")] == [
        b"HTTP/1.1 204 No Content",
        b"HTTP/1.1 408 Request Timeout",
    ]
