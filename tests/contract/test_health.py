"""`/livez` and `/readyz`: from the first moment to the last."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.lifecycle import FIXED_FOLDERS
from tests.conftest import ADMIN, Process, Server, wait_until
from tests.contract.conftest import Answer, Wire, assert_problem, request_bytes
from tests.scraping import scrape

StartServer = Callable[..., Server]


def ask(port: int, path: str, method: str = "GET") -> Answer:
    wire = Wire(port)
    try:
        return wire.request(method, path)
    finally:
        wire.close()


@pytest.fixture
def server(start_server: StartServer) -> Server:
    return start_server("--admin=127.0.0.1:0")


def test_a_server_that_serves_is_alive_and_ready(server: Server) -> None:
    for path, text in (("/livez", b"alive\n"), ("/readyz", b"ready\n")):
        answer = ask(server.admin_port, path)

        assert (answer.status, answer.body) == (200, text)
        assert answer.headers["cache-control"] == "no-store"
        assert ask(server.admin_port, path, "HEAD").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_the_admin_listener_changes_nothing(server: Server, method: str) -> None:
    answer = ask(server.admin_port, "/livez", method)

    assert_problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/", "/orders", "/orders/messages", "/livez/", "/..%2flivez"])
def test_the_admin_listener_knows_no_queues(server: Server, path: str) -> None:
    assert_problem(ask(server.admin_port, path), 404, "unknown-path")


def test_the_openapi_document_is_served(server: Server) -> None:
    answer = ask(server.admin_port, "/openapi.json")

    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["openapi"].startswith("3.1.")


def test_a_server_that_sweeps_at_its_start_is_alive_and_not_ready(
    root: Path, tmp_path: Path, processes: list[Process]
) -> None:
    """Unfinished deletions whose lock somebody holds: the sweep waits a second for each."""
    for folder in FIXED_FOLDERS:
        (root / folder).mkdir(parents=True, mode=0o700)
    held = []
    for number in range(60):
        deleting = root / "remove" / f"q{number}:.deleting"
        deleting.mkdir()
        held.append(os.open(deleting, os.O_RDONLY))
        fcntl.flock(held[-1], fcntl.LOCK_EX)
    flags = [f"--root={root}", "--port=0", "--admin=127.0.0.1:0"]
    process = Process("mq", *flags, log=tmp_path / "log")
    processes.append(process)
    wait_until(lambda: ADMIN.search(process.log()), 30)
    match = ADMIN.search(process.log())
    assert match is not None
    port = int(match[1])

    answer = ask(port, "/readyz")

    assert_problem(answer, 503, "unavailable", "opens and sweeps its root")
    assert int(answer.headers["retry-after"]) > 0
    assert ask(port, "/livez").status == 200
    assert scrape(port).text
    assert "event=listening" not in process.log()
    for fd in held:
        os.close(fd)
    wait_until(lambda: ask(port, "/readyz").status == 200, 30)
    assert "event=listening" in process.log()


def test_a_server_below_its_floor_is_alive_and_not_ready(start_server: StartServer) -> None:
    server = start_server("--admin=127.0.0.1:0", f"--min-free={2**60}")

    assert_problem(ask(server.admin_port, "/readyz"), 503, "unavailable", "--min-free")
    assert ask(server.admin_port, "/livez").status == 200


def test_a_server_that_stops_is_not_ready(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as slow:
        slow.sendall(request_bytes("PUT", "/orders"))
        assert slow.recv(1000)
        slow.sendall(
            b"POST /orders/messages HTTP/1.1\r\nHost: mq\r\nContent-Length: 10\r\n"
            b"Expect: 100-continue\r\n\r\n"
        )
        assert slow.recv(100).startswith(b"HTTP/1.1 100 ")
        server.popen.send_signal(signal.SIGTERM)
        wait_until(lambda: "event=stopping" in server.log())

        answer = ask(server.admin_port, "/readyz")

        assert_problem(answer, 503, "unavailable", "stopping")
        slow.sendall(b"ten bytes.")
        assert slow.recv(1000).startswith(b"HTTP/1.1 201 ")
    assert server.popen.wait(15) == 0
