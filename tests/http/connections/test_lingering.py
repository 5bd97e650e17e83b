"""A client that is still sending gets the answer that ends its connection."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from mq.daemon.tls import Certificate
from mq.web.connections import handshakes
from mq.web.connections.connection import Limits
from mq.web.connections.http_server import HttpServer
from mq.web.connections.lingering import linger
from tests.support.certificates import make_certificate
from tests.support.processes import Server
from tests.support.slow_readers import SlowlyRead, read_whole
from tests.support.stores import eventually
from tests.support.wire import Wire, assert_problem

REST_BYTES = 32 * 1024 * 1024
"""More than the sockets of both sides hold: the server has to read it."""

MANY_HEADERS = b"".join(b"X-Meta-%d: x\r\n" % number for number in range(70))


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"HTTP/1.1\r\nHost: mq\r\n" + MANY_HEADERS + b"Content-Length: %d\r\n\r\n", 431),
        (b"HTTP/1.1\r\nHost: mq\r\nX: " + b"x" * 20_000 + b"\r\nContent-Length: %d\r\n\r\n", 400),
        (b"HTTP/1.1\r\nHost: mq\r\nContent-Length: 1\r\nContent-Length: %d\r\n\r\n", 400),
        (b"HTTP/2.0\r\nHost: mq\r\nContent-Length: %d\r\n\r\n", 400),
        (b"HTTP/1.1\r\nHost: mq\r\nTransfer-Encoding: gzip\r\nX: %d\r\n\r\n", 400),
        (b"HTTP/1.1\r\nHost: mq\r\nTransfer-Encoding: gzip, chunked\r\nX: %d\r\n\r\n", 400),
        (b"HTTP/1.1\r\nHost: mq\r\nTransfer-Encoding: chunked\r\nX: %d\r\n\r\nno\r\n", 400),
        (b"HTTP/1.1\r\nHost: mq\r\nTransfer-Encoding: chunked\r\nX: %d\r\n\r\n1\r\nano\r\n", 400),
    ],
)
def test_a_refusal_reaches_a_client_that_is_still_sending(
    server: Server, connect: Callable[[Server], Wire], queue: str, head: bytes, status: int
) -> None:
    wire = connect(server)

    wire.send(b"POST /%b/messages " % queue.encode(), head % REST_BYTES, bytes(REST_BYTES))

    assert wire.answer().status == status
    assert wire.is_closed()


def test_it_reaches_a_client_that_has_sent_all_and_closed_its_direction(
    server: Server, connect: Callable[[Server], Wire], queue: str
) -> None:
    wire = connect(server)

    wire.send(b"POST /%b/messages HTTP/1.1\r\nX: %b\r\n\r\n" % (queue.encode(), b"x" * 2**20))
    wire.socket.shutdown(socket.SHUT_WR)

    assert wire.answer().status == 400
    assert wire.is_closed()


def test_so_does_a_request_timeout(
    start_shared: Callable[..., Server], connect: Callable[[Server], Wire]
) -> None:
    wire = connect(start_shared("--body-timeout=0.3"))
    assert wire.request("PUT", "/late").status == 201

    wire.send(b"POST /late/messages HTTP/1.1\r\nHost: mq\r\nContent-Length: %d\r\n\r\n" % 2**26)
    assert_problem(wire.answer(), 408, "request-timeout")
    wire.send(bytes(REST_BYTES))

    assert wire.is_closed()


async def test_a_client_that_does_not_close_is_not_waited_for_without_end() -> None:
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, ours)

    await linger(transport, asyncio.Event(), 0.01)

    assert theirs.recv(1) == b""
    transport.close()
    theirs.close()


async def test_it_is_not_over_tls_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a connection, and nobody else may have that meanwhile."""
    monkeypatch.setattr(handshakes, "LINGER_SECONDS", 0.01)
    pair = make_certificate(tmp_path, "localhost")
    certificate = Certificate(pair.cert, pair.key)
    http = HttpServer(answer_nothing, Limits(header_timeout_seconds=0.01))
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    secure = handshakes.SecureServer(listening, http, certificate.current)
    plain = socket.create_connection(listening.getsockname())
    trusting = ssl.create_default_context(cafile=pair.cert)

    with await asyncio.to_thread(trusting.wrap_socket, plain, server_hostname="localhost"):

        async def is_gone() -> bool:
            return not http.connections and http._accepted == 0

        await eventually(is_gone)
    secure.close()


async def answer_nothing(request: web.BaseRequest) -> web.Response:
    raise AssertionError("nobody asks")


@pytest.mark.parametrize("ending", [{"connection": "close"}, {}], ids=["last", "kept"])
@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "TLS"])
def test_an_answer_is_not_cut_off_while_its_client_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: dict[str, str], is_tls: bool
) -> None:
    """However long the rest takes that waits in the process when the connection is to be closed."""
    monkeypatch.setattr("mq.web.connections.http_server.KEEPALIVE_SECONDS", 0.1)

    async def read_late(http: HttpServer, client: socket.socket) -> None:
        await asyncio.sleep(0.5)  # Over TLS the event loop gives it a fifth of that.
        await asyncio.to_thread(read_whole, client)

    reading = SlowlyRead(tmp_path, 4096, is_tls=is_tls, tls_end_seconds=0.1)
    reading.run(read_late, **ending)
