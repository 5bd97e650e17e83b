"""Clients that do not read their answers: they are cut off, and those that read slowly are not."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.web.connections.http_server import HttpServer
from mq.web.connections.unread import Unread
from tests.support.processes import Server, wait_until
from tests.support.slow_readers import SlowlyRead
from tests.support.token_files import make_token_file
from tests.support.wire import Wire, request_bytes, server_end, wait_until_closed

LARGE = 8_000_000
"""More than the system keeps for a client that does not read."""

Connect = Callable[[Server], Wire]


@pytest.fixture(scope="module")
def impatient_server(
    start_shared: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Server:
    tokens = make_token_file(
        tmp_path_factory.mktemp("tokens"), "all read,write,admin kT3vVt9xkq3mP2sYw8LrBg\n"
    )
    return start_shared("--body-timeout=0.5", f"--token-file={tokens}", "--max-connections=3")


KNOWN = {"authorization": "Bearer kT3vVt9xkq3mP2sYw8LrBg"}


def narrow(server: Server) -> Wire:
    """A connection whose end keeps little."""
    wire = Wire.__new__(Wire)
    wire.socket = socket.socket()
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.socket.settimeout(10)
    wire.socket.connect(("127.0.0.1", server.port))
    wire.local_port = wire.socket.getsockname()[1]
    wire._reader = wire.socket.makefile("rb")
    return wire


def send_until_it_blocks(wire: Wire, data: bytes) -> None:
    wire.socket.setblocking(False)
    try:
        while True:
            wire.socket.send(data)
    except OSError:
        pass
    wire.socket.settimeout(10)


def test_small_answers_that_nobody_reads_end_the_connection(
    impatient_server: Server, connect: Connect
) -> None:
    wires = [narrow(impatient_server) for _ in range(3)]
    for wire in wires:
        send_until_it_blocks(wire, request_bytes("GET", "/orders", **KNOWN) * 100)

    for wire in wires:
        wait_until(lambda: not server_end(impatient_server, wire.local_port).is_open, 60)

    assert connect(impatient_server).request("GET", "/orders").status == 401
    for wire in wires:
        wire.close()


@pytest.mark.parametrize("query", ["", "?peek", "?peek&max=10"])
def test_a_large_answer_that_is_not_read_ends_the_connection(
    impatient_server: Server, connect: Connect, query: str
) -> None:
    wire, other = connect(impatient_server), narrow(impatient_server)
    assert wire.request("PUT", "/large", **KNOWN).status in (200, 201)
    body = os.urandom(LARGE)
    assert wire.request("POST", "/large/messages", body, **KNOWN).status == 201

    other.send(request_bytes("GET", f"/large/messages{query}", **KNOWN))

    wait_until_closed(impatient_server, other.local_port)
    wait_until(lambda: wire.request("GET", "/large", **KNOWN).json()["ready"] == 1)
    other.close()
    wire.request("DELETE", "/large", **KNOWN)


def test_an_answer_that_is_closed_with_the_connection_and_not_read_ends_it(
    impatient_server: Server, connect: Connect
) -> None:
    wire, other = connect(impatient_server), narrow(impatient_server)
    assert wire.request("PUT", "/last", **KNOWN).status in (200, 201)
    assert wire.request("POST", "/last/messages", os.urandom(LARGE), **KNOWN).status == 201

    other.send(request_bytes("GET", "/last/messages?peek", connection="close", **KNOWN))

    wait_until_closed(impatient_server, other.local_port)
    other.close()


def test_an_answer_that_is_read_slowly_comes_whole(
    impatient_server: Server, connect: Connect
) -> None:
    """Several times as long as a client may take nothing."""
    wire, other = connect(impatient_server), narrow(impatient_server)
    assert wire.request("PUT", "/slow", **KNOWN).status in (200, 201)
    body = os.urandom(LARGE)
    assert wire.request("POST", "/slow/messages", body, **KNOWN).status == 201
    other.send(request_bytes("GET", "/slow/messages?peek", connection="close", **KNOWN))

    received = bytearray()
    poll = socket.socketpair()
    for _ in range(20):
        received += other.socket.recv(20_000)
        # Let time pass, a tenth of what ends a connection of which nothing is read.
        poll[0].settimeout(0.1)
        with pytest.raises(TimeoutError):
            poll[0].recv(1)
    while piece := other.socket.recv(1_000_000):
        received += piece

    assert received.endswith(body)
    for each in (other, *poll):
        each.close()


@pytest.mark.parametrize("ending", [{"connection": "close"}, {}], ids=["last", "kept"])
@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "TLS"])
def test_what_waits_in_the_process_alone_ends_the_connection_too(
    tmp_path: Path, ending: dict[str, str], is_tls: bool
) -> None:
    """Over TLS the event loop has no part of such an answer in its own buffer."""

    async def read_nothing(http: HttpServer, client: socket.socket) -> None:
        cutting_off = asyncio.create_task(http.cut_off_unread_forever())
        while http.connections:
            await asyncio.sleep(0.01)
        cutting_off.cancel()

    reading = SlowlyRead(tmp_path, 4096, is_tls=is_tls, tls_end_seconds=1000.0)
    reading.run(read_nothing, **ending)


class SlowClient(asyncio.Transport):
    """A client that takes some bytes of a large answer each second."""

    unsent = 1_000_000

    def get_write_buffer_size(self) -> int:
        return self.unsent


@pytest.mark.parametrize(("bytes_per_second", "is_cut_off"), [(1000, True), (1100, False)])
def test_whoever_takes_less_than_a_kibibyte_a_second_is_cut_off(
    bytes_per_second: int, is_cut_off: bool
) -> None:
    unread, client = Unread(), SlowClient()
    unread.wrote(client.unsent)

    found = []
    for now in range(30):
        found.append(unread.is_stuck(client, now, 10.0))
        client.unsent -= bytes_per_second

    assert any(found) is is_cut_off
