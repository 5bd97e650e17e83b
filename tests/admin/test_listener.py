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
from tests.support.certificates import Pair, make_certificate
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


class SecureClients:
    """Clients of an admin port with TLS, until the block ends. `connect` begins no handshake."""

    def __init__(self, server: Server, pair: Pair, stack: ExitStack) -> None:
        self._port, self._stack = server.admin_port, stack
        self._context = ssl.create_default_context(cafile=pair.cert)

    def connect(self) -> socket.socket:
        opened = socket.create_connection(("127.0.0.1", self._port), timeout=10)
        return self._stack.enter_context(opened)

    def shake_hands(self, connected: socket.socket) -> ssl.SSLSocket:
        secured = self._context.wrap_socket(connected, server_hostname="localhost")
        return self._stack.enter_context(secured)

    def check(self, path: str, connected: socket.socket | None = None) -> None:
        with self.shake_hands(connected or self.connect()) as secured:
            secured.sendall(request_bytes("GET", path))
            assert secured.recv(12) == b"HTTP/1.1 200"


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return make_certificate(tmp_path, "localhost")


@pytest.fixture
def secure(start_server: Callable[..., Server], pair: Pair) -> Server:
    return start_server("--admin=127.0.0.1:0", *pair.flags())


@pytest.mark.parametrize("others", [0, MAX_ADMIN_CONNECTIONS // 2 - 1])
def test_handshakes_that_come_to_no_end_keep_none_out(
    secure: Server, pair: Pair, others: int
) -> None:
    with ExitStack() as stack:
        clients = SecureClients(secure, pair, stack)
        clients.check("/readyz")
        before = descriptors(secure)
        for _ in range(others):
            clients.shake_hands(clients.connect())
        for _ in range(MAX_ADMIN_CONNECTIONS - others):
            clients.connect()
        for path in ("/livez", "/readyz") * 3:
            clients.check(path)

    wait_until(lambda: descriptors(secure) <= before)


def test_handshakes_that_had_to_go_are_not_counted_any_more(secure: Server, pair: Pair) -> None:
    with ExitStack() as stack:
        clients = SecureClients(secure, pair, stack)
        clients.check("/readyz")
        before = descriptors(secure)
        opened = [clients.connect() for _ in range(2 * MAX_ADMIN_CONNECTIONS)]
        for each in opened[:MAX_ADMIN_CONNECTIONS]:
            assert each.recv(1) == b""
    wait_until(lambda: descriptors(secure) <= before)

    with ExitStack() as stack:
        SecureClients(secure, pair, stack).check("/livez")


def test_a_handshake_outlives_those_that_ask_for_nothing(secure: Server, pair: Pair) -> None:
    with ExitStack() as stack:
        clients = SecureClients(secure, pair, stack)
        for _ in range(MAX_ADMIN_CONNECTIONS - 1):
            clients.shake_hands(clients.connect())
        late = clients.connect()
        clients.check("/readyz")

        clients.check("/livez", late)


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
