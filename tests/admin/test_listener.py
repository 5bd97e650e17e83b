"""More connections than the admin listener has at once."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mq.daemon.server import MAX_ADMIN_CONNECTIONS
from tests.support.certificates import make_certificate
from tests.support.processes import Server, wait_until
from tests.support.wire import Wire, request_bytes

Open = Callable[[], Wire]


@pytest.fixture
def server(start_server: Callable[..., Server]) -> Server:
    return start_server("--admin=127.0.0.1:0")


@pytest.fixture
def open_wire(server: Server) -> Iterator[Open]:
    opened: list[Wire] = []

    def connect() -> Wire:
        opened.append(Wire(server.admin_port))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\n", request_bytes("GET", "/livez")])
def test_connections_that_ask_for_nothing_keep_no_health_check_out(
    open_wire: Open, sent: bytes
) -> None:
    for _ in range(MAX_ADMIN_CONNECTIONS):
        open_wire().send(sent)

    statuses = [open_wire().request("GET", path).status for path in ("/livez", "/readyz") * 3]

    assert statuses == [200] * 6


@pytest.mark.parametrize("others", [0, MAX_ADMIN_CONNECTIONS // 2 - 1])
def test_handshakes_that_come_to_no_end_keep_none_out(
    start_server: Callable[..., Server], tmp_path: Path, others: int
) -> None:
    pair = make_certificate(tmp_path, "localhost")
    server = start_server("--admin=127.0.0.1:0", *pair.flags())
    context = ssl.create_default_context(cafile=pair.cert)
    with ExitStack() as stack:

        def connect() -> socket.socket:
            opened = socket.create_connection(("127.0.0.1", server.admin_port), timeout=10)
            return stack.enter_context(opened)

        def check(path: str) -> None:
            with context.wrap_socket(connect(), server_hostname="localhost") as secured:
                secured.sendall(request_bytes("GET", path))
                assert secured.recv(12) == b"HTTP/1.1 200"

        check("/readyz")
        before = descriptors(server)
        for _ in range(others):
            stack.enter_context(context.wrap_socket(connect(), server_hostname="localhost"))
        for _ in range(MAX_ADMIN_CONNECTIONS - others):
            connect()
        for path in ("/livez", "/readyz") * 3:
            check(path)

    wait_until(lambda: descriptors(server) <= before)


def descriptors(server: Server) -> int:
    return len(os.listdir(f"/proc/{server.popen.pid}/fd"))


def test_the_oldest_that_asks_for_nothing_makes_room(open_wire: Open) -> None:
    viewer, oldest, other = open_wire(), open_wire(), open_wire()
    viewer.send(request_bytes("GET", "/events"))
    assert viewer.socket.recv(12) == b"HTTP/1.1 200"
    for _ in range(MAX_ADMIN_CONNECTIONS - 3):
        open_wire()

    assert open_wire().request("GET", "/livez").status == 200

    assert oldest.is_closed()
    assert other.request("GET", "/livez").status == 200
    assert viewer.socket.recv(10)
