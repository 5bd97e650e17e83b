"""A server that stops answers every client that has connected."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web

from mq.web.connections.http_server import HttpServer
from tests.support.processes import Server, wait_until
from tests.support.slow_readers import SlowlyRead, read_whole
from tests.support.wire import (
    SMALL_BODY_BYTES,
    Wire,
    request_bytes,
    server_end,
    wait_until_read,
)

Connect = Callable[[Server], Wire]


@pytest.mark.parametrize("beginning", [b"", b"PUT /ord"], ids=["nothing", "a piece"])
def test_a_connection_that_has_just_come_may_send_its_first_request(
    start_server: Callable[..., Server], connect: Connect, beginning: bytes
) -> None:
    """Nobody could tell that client to send it again: it would see a connection that is reset."""
    server = start_server()
    for each in [connect(server) for _ in range(3)]:
        assert each.request("PUT", "/known").status in (200, 201)
    wire = connect(server)
    wire.send(beginning)
    wait_until(lambda: server_end(server, wire.local_port) == (True, 0))
    assert connect(server).request("PUT", "/later").status == 201  # it was accepted before that

    server.popen.send_signal(signal.SIGTERM)
    wait_until(lambda: "event=stopping" in server.log())
    wire.send(b"PUT /orders HTTP/1.1\r\nHost: mq\r\n\r\n"[len(beginning) :])

    assert wire.answer().status == 201
    assert wire.is_closed()
    assert server.popen.wait(30) == 0


@pytest.mark.parametrize("query", ["", "?max=10"])
def test_a_large_answer_meanwhile_says_that_it_is_the_last(
    start_server: Callable[..., Server], connect: Connect, query: str
) -> None:
    server = start_server()
    other = connect(server)
    assert other.request("PUT", "/orders").status == 201
    other.publish("orders", b"b" * 3 * SMALL_BODY_BYTES)
    wire = connect(server)
    wire.send(b"GET /ord")
    wait_until_read(server, wire)

    server.popen.send_signal(signal.SIGTERM)
    wait_until(lambda: "event=stopping" in server.log())
    wire.send(f"ers/messages{query} HTTP/1.1\r\nHost: mq\r\n\r\n".encode())

    answer = wire.answer()
    assert (answer.status, answer.headers.get("connection")) == (200, "close")
    assert wire.is_closed()
    assert server.popen.wait(30) == 0


def test_a_connection_that_stays_silent_does_not_hold_the_stop_up(
    start_server: Callable[..., Server], connect: Connect
) -> None:
    server = start_server()
    wire = connect(server)
    assert connect(server).request("PUT", "/later").status == 201

    assert server.stop() == 0

    assert wire.is_closed()


def test_what_lies_in_the_socket_of_an_idle_connection_is_answered(
    start_server: Callable[..., Server], connect: Connect
) -> None:
    """The requests and the signal are there before the server sees either."""
    server = start_server()
    wires = [connect(server) for _ in range(200)]
    for wire in wires:
        assert wire.request("PUT", "/orders").status in (200, 201)
    server.popen.send_signal(signal.SIGSTOP)
    for wire in wires:
        wire.send(request_bytes("POST", "/orders/messages", b"body"))
    server.popen.send_signal(signal.SIGTERM)
    server.popen.send_signal(signal.SIGCONT)

    answers = [wire.answer() for wire in wires]

    assert {answer.status for answer in answers} == {201}
    assert all(wire.is_closed() for wire in wires)
    assert server.popen.wait(30) == 0


@pytest.mark.parametrize(
    "last", [("GET", "/orders"), ("POST", "/orders/messages")], ids=["usual way", "quick way"]
)
def test_idle_connections_are_closed_while_others_are_answered(
    start_server: Callable[..., Server], connect: Connect, last: tuple[str, str]
) -> None:
    """A client whose connection stayed open would send a request that nobody answers."""
    server = start_server()
    idle, busy = connect(server), connect(server)
    assert idle.request("PUT", "/orders").status == 201
    assert idle.request(*last).status in (200, 201)
    busy.send(request_bytes("POST", "/orders/messages", content_length="4"), b"bo")
    wait_until_read(server, busy)

    server.popen.send_signal(signal.SIGTERM)

    assert idle.is_closed()
    busy.send(b"dy")
    assert busy.answer().status == 201
    assert server.popen.wait(30) == 0


def test_nobody_new_is_let_in(start_server: Callable[..., Server], connect: Connect) -> None:
    server = start_server()
    wire = connect(server)
    assert wire.request("PUT", "/orders").status == 201
    wire.send(request_bytes("POST", "/orders/messages", content_length="4"), b"bo")
    wait_until_read(server, wire)

    server.popen.send_signal(signal.SIGTERM)
    with pytest.raises(ConnectionRefusedError):
        wait_until(lambda: connect(server).close())
    wire.send(b"dy")

    assert wire.answer().status == 201
    assert server.popen.wait(30) == 0


def test_nobody_asks_a_store_that_is_closed(start_server: Callable[..., Server]) -> None:
    server = start_server("--admin=127.0.0.1:0", "--admin-write")
    paths = ["/metrics", "/queues", "/api/q/messages?peek&state=leased"] * 2
    asked: dict[int, list[int]] = {number: [] for number in range(len(paths))}

    def ask(number: int) -> None:
        wire = Wire(server.admin_port)
        # The server closes the connection in the end, where an answer was due.
        with suppress(AssertionError, OSError):
            while True:
                asked[number].append(wire.request("GET", paths[number]).status)
        wire.close()

    with ThreadPoolExecutor(len(paths)) as askers:
        asking = [askers.submit(ask, number) for number in asked]
        wait_until(lambda: all(asked.values()))
        assert server.stop() == 0
        assert [each.exception() for each in asking] == [None] * len(paths)

    assert 500 not in set().union(*asked.values())
    assert "request failed" not in server.log()


async def test_a_request_that_comes_while_idle_connections_are_closed_is_answered() -> None:
    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="done")

    class Raced(HttpServer):
        """Each client sends its next request just when the server looks at its connections."""

        @property
        def connections(self) -> list[web.RequestHandler]:
            while clients:
                clients.pop().sendall(request_bytes("GET", "/"))
            return super().connections

    http = Raced(handle)
    listener = await asyncio.get_running_loop().create_server(http, "127.0.0.1", 0)
    address = listener.sockets[0].getsockname()
    streams = []
    clients: list[socket.socket] = []
    for _ in range(10):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request_bytes("GET", "/"))
        assert b"200 OK" in await reader.readuntil(b"done")
        streams.append((reader, writer))
    clients += [writer.get_extra_info("socket")._sock for _, writer in streams]

    listener.close()
    await http.drain(10)

    for reader, writer in streams:
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b"Connection: close" in answer
        writer.close()
    await http.shutdown(1)


ON_TLS_TOO = pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "TLS"])


@ON_TLS_TOO
def test_an_answer_that_is_read_slowly_arrives_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_tls: bool
) -> None:
    """What still waits in the process when it ends never leaves it."""
    monkeypatch.setattr("mq.web.connections.http_server.FIRST_REQUEST_SECONDS", 0.0)

    async def read_while_it_drains(http: HttpServer, client: socket.socket) -> None:
        draining = asyncio.create_task(http.drain(60))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not draining.done()
        await asyncio.to_thread(read_whole, client)
        await draining

    SlowlyRead(tmp_path, 4096, is_tls=is_tls).run(read_while_it_drains)


@ON_TLS_TOO
def test_an_answer_that_the_system_has_holds_up_no_stop(tmp_path: Path, is_tls: bool) -> None:
    """The system sends it when the process is gone, if the client is still there."""

    async def read_afterwards(http: HttpServer, client: socket.socket) -> None:
        async with asyncio.timeout(100):
            await http.drain(1000)
        await asyncio.to_thread(read_whole, client)

    SlowlyRead(tmp_path, 200_000, is_tls=is_tls).run(read_afterwards)
