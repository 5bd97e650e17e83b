"""A client without a known token gets one answer: nothing that it sends behind that is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mq.web.connections.connection import Connection
from tests.support.processes import Server
from tests.support.sites import site_on
from tests.support.token_files import make_token_file
from tests.support.wire import Wire, assert_problem, request_bytes

TOKEN = "kT3vVt9xkq3mP2sYw8LrBg"
KNOWN = {"authorization": f"Bearer {TOKEN}"}
MANY = 40
"""More requests than a connection parses before it answers the first one."""

REST_BYTES = 32 * 1024 * 1024
"""More than the sockets of both sides hold: the server has to read it."""

Connect = Callable[[Server], Wire]


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_token_file(tmp_path_factory.mktemp("tokens"), f"all read,write,admin * {TOKEN}")


@pytest.fixture(scope="module")
def guarded(start_shared: Callable[..., Server], tokens: Path) -> Server:
    return start_shared(f"--token-file={tokens}")


@pytest.mark.parametrize(
    ("headers", "status", "slug"),
    [
        (b"Host: mq", 401, "unauthorized"),
        (b"Host: mq\r\nAuthorization: Bearer nobody-knows-this-token", 401, "unauthorized"),
        (b"Host: mq\r\nAuthorization: a\r\nAuthorization: b", 400, "invalid-request"),
        (b"Host: evil.example", 421, "unknown-host"),
        (b"Host: mq\r\nOrigin: https://evil.example", 403, "foreign-page"),
    ],
)
def test_a_refusal_is_the_only_answer(
    guarded: Server, connect: Connect, headers: bytes, status: int, slug: str
) -> None:
    wire, witness = connect(guarded), connect(guarded)
    refused = b"GET /orders HTTP/1.1\r\n%b\r\n\r\n" % headers

    wire.send(refused * MANY, request_bytes("PUT", "/late", **KNOWN))

    answer = wire.answer()
    assert_problem(answer, status, slug)
    assert answer.headers["connection"] == "close"
    assert wire.is_closed()
    assert witness.request("GET", "/late", **KNOWN).status == 404


def test_a_client_that_showed_its_token_may_err(guarded: Server, connect: Connect) -> None:
    wire = connect(guarded)
    assert wire.request("GET", "/absent", **KNOWN).status == 404

    for _ in range(2):
        assert_problem(wire.request("GET", "/absent"), 401, "unauthorized")

    assert wire.request("GET", "/absent", **KNOWN).status == 404


def test_so_may_one_whose_requests_went_the_quick_way(guarded: Server, connect: Connect) -> None:
    assert connect(guarded).request("PUT", "/orders", **KNOWN).status in (200, 201)
    wire = connect(guarded)
    assert wire.request("POST", "/orders/messages", b"one", **KNOWN).status == 201

    for _ in range(2):
        assert_problem(wire.request("GET", "/orders"), 401, "unauthorized")


def test_the_refusal_reaches_a_client_that_is_still_sending(
    guarded: Server, connect: Connect
) -> None:
    wire = connect(guarded)

    wire.send(request_bytes("POST", "/orders/messages", bytes(REST_BYTES)))

    assert_problem(wire.answer(), 401, "unauthorized")
    assert wire.is_closed()


class NobodyReads(asyncio.Transport):
    """The server's end of a connection, without a socket."""

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None: ...


@pytest.mark.parametrize(
    "piece",
    [request_bytes("PUT", "/orders") * MANY, request_bytes("POST", "/orders", bytes(100_000))],
    ids=["requests", "body"],
)
async def test_what_is_read_behind_the_refused_request_does_not_wait_for_the_answer(
    root: Path, piece: bytes
) -> None:
    """Many connections may be read before the first of them is answered."""
    async with site_on(root, "token") as site:
        connection = site.http()
        assert isinstance(connection, Connection)
        connection.connection_made(NobodyReads())

        connection.data_received(piece)
        connection.data_received(piece)

        ((_, body),) = connection._messages
        assert list(body._buffer if body.total_bytes else ()) == []
        connection.connection_lost(None)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, tokens: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("gateway")
    flags = (f"--token-file={tokens}",)
    server = Server(folder / "root", *flags, log=folder / "log", module="mq_sqs")
    yield server
    server.kill()


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_so_it_is_with_signatures(gateway: Server, connect: Connect, method: str) -> None:
    wire = connect(gateway)

    wire.send(request_bytes(method, "/", b"{}", x_amz_target="AmazonSQS.ListQueues") * MANY)

    assert wire.answer().status in (403, 405)
    assert wire.is_closed()
