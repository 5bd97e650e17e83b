"""More connections than a server takes: they cost it nothing, and files keep their descriptors."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mq.errors import ExitCode
from tests.support.certificates import make_certificate
from tests.support.processes import Process, Server, wait_until
from tests.support.refusals import refusal_of
from tests.support.wire import Wire, make_queue, wait_until_closed

Connect = Callable[[Server], Wire]

WITH_FEW_DESCRIPTORS = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
from mq.daemon.cli import main
main()
"""


@pytest.fixture
def clients() -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    yield opened
    for each in opened:
        each.close()


def descriptors(server: Server) -> int:
    return len(os.listdir(f"/proc/{server.popen.pid}/fd"))


def connect_many(server: Server, number: int, clients: list[socket.socket]) -> None:
    for _ in range(number):
        clients.append(socket.create_connection(("127.0.0.1", server.port), timeout=10))


@pytest.mark.parametrize("way", ["plain", "tls"])
def test_connections_above_the_limit_are_closed_at_once(
    start_server: Callable[..., Server], tmp_path: Path, clients: list[socket.socket], way: str
) -> None:
    """They say nothing, not even what TLS they speak."""
    flags = make_certificate(tmp_path, "pair").flags() if way == "tls" else []
    server = start_server("--max-connections=5", *flags)
    before = descriptors(server)

    connect_many(server, 100, clients)

    for client in clients[5:]:
        wait_until_closed(server, client.getsockname()[1])
    wait_until(lambda: descriptors(server) <= before + 10)
    assert b"--max-connections" in clients[-1].recv(10_000) if way == "plain" else True


def test_a_client_that_gives_up_its_handshake_counts_no_more(
    start_server: Callable[..., Server], tmp_path: Path, clients: list[socket.socket]
) -> None:
    server = start_server("--max-connections=2", *make_certificate(tmp_path, "pair").flags())
    for _ in range(5):
        connect_many(server, 2, clients)
        for beginning in (b"", b"GET / HTTP/1.1\r\n\r\n"):
            client = clients.pop()
            port = client.getsockname()[1]
            if beginning:
                client.sendall(beginning)
            client.close()
            wait_until_closed(server, port)

    connect_many(server, 1, clients)
    clients[-1].settimeout(0.5)

    with pytest.raises(TimeoutError):
        clients[-1].recv(1)


def test_whoever_connects_files_keep_their_descriptors(
    tmp_path: Path, processes: list[Process], connect: Connect, clients: list[socket.socket]
) -> None:
    log, module = tmp_path / "log", "tests.support.few_descriptors"
    server = Server(tmp_path / "root", log=log, module=module)
    processes.append(server)
    assert "fewer connections than asked for" in server.log()
    wire = connect(server)
    queue = make_queue(wire)

    connect_many(server, 400, clients)
    statuses = [
        wire.request("POST", f"/{queue}/messages", b"b" * size).status
        for size in (10, 600_000)
        for _ in range(20)
    ]

    assert statuses == [201] * 40
    wait_until(lambda: descriptors(server) < 150)
    assert "Too many open files" not in server.log()


def test_server_refuses_a_system_that_allows_it_too_few_open_files(tmp_path: Path) -> None:
    root = tmp_path / "root"
    command = [sys.executable, "-c", WITH_FEW_DESCRIPTORS, f"--root={root}", "--port=0"]

    refusal = refusal_of(command, {})

    assert refusal.exit_code == ExitCode.SYSTEM
    assert "allows this process 32 open files, and a server needs at least 64" in refusal.line
    assert "ulimit -n or LimitNOFILE=" in refusal.line
    assert not root.exists()
