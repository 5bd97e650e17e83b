"""A head that begins in one piece with the request before has its time too, and no idle connection
is taken for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop
from aiohttp import web

from mq.web.answers import Answer
from mq.web.connections.connection import Limits
from mq.web.connections.http_server import HttpServer
from tests.support.processes import Server
from tests.support.wire import Wire, assert_problem, request_bytes, wait_without_answer


@pytest.fixture(scope="module")
def impatient_server(start_shared: Callable[..., Server]) -> Server:
    return start_shared("--header-timeout=0.3")


@pytest.fixture
def impatient(impatient_server: Server, connect: Callable[[Server], Wire]) -> Wire:
    wire = connect(impatient_server)
    wire.request("PUT", "/orders")
    wire.request("DELETE", "/orders?purge")
    return wire


REQUESTS = {
    "without a body": request_bytes("GET", "/orders"),
    "receive": request_bytes("GET", "/orders/messages"),
    "with a body": request_bytes("POST", "/orders/messages", b"body"),
    "in chunks": request_bytes("POST", "/orders/messages", transfer_encoding="chunked")
    + b"4\r\nbody\r\n0\r\n\r\n",
    "long poll": request_bytes("GET", "/orders/messages?wait=1"),
}


@pytest.mark.parametrize("first", REQUESTS)
@pytest.mark.parametrize("beginning", [b"G", b"GET /orders HTTP/1.1\r\n"])
def test_a_head_that_began_in_one_piece_with_a_request_is_408_too(
    impatient: Wire, first: str, beginning: bytes
) -> None:
    impatient.send(REQUESTS[first] + beginning)

    assert impatient.answer().status in (200, 201, 204)
    assert_problem(impatient.answer(), 408, "request-timeout", "--header-timeout")
    assert impatient.is_closed()


@pytest.mark.parametrize("first", REQUESTS)
def test_a_head_that_began_early_may_end_after_the_answer(impatient: Wire, first: str) -> None:
    for _ in range(2):
        impatient.send(REQUESTS[first] + b"GET /orders HT")
        assert impatient.answer().status in (200, 201, 204)
        impatient.send(b"TP/1.1\r\nHost: mq\r\n\r\n")
        assert impatient.answer().status == 200
    wait_without_answer(impatient, 0.6)


@pytest.mark.parametrize("first", REQUESTS)
@pytest.mark.parametrize("cut", [1, 3, 4, 6, 30])
def test_requests_that_come_in_pieces_leave_a_connection_idle(
    impatient: Wire, first: str, cut: int
) -> None:
    impatient.request("PUT", "/orders")
    impatient.request("DELETE", "/orders?purge")
    twice = REQUESTS["with a body"] + REQUESTS[first]

    impatient.send(twice[:-cut])
    impatient.send(twice[-cut:])
    assert impatient.answer().status == 201
    assert impatient.answer().status in (200, 201, 204)
    wait_without_answer(impatient, 0.6)


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
