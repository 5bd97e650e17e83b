"""Sockets that systemd hands over: `LISTEN_FDS`."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mq.errors import ExitCode
from tests.support.processes import Server
from tests.support.wire import request_bytes

HAND_OVER = """
import os, sys
names, count, *flags = sys.argv[1:]
for place, fd in enumerate(os.environ.pop("GIVEN").split(",")):
    os.dup2(int(fd), 3 + place)
os.environ |= {"LISTEN_FDS": count, "LISTEN_PID": str(os.getpid()), "LISTEN_FDNAMES": names}
os.execv(sys.executable, [sys.executable, "-m", "mq", *flags])
"""


def ask(port: int, target: str) -> bytes:
    """The status line of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=100) as client:
        client.sendall(request_bytes("GET", target))
        return client.makefile("rb").readline().rstrip()


@pytest.fixture
def start_with_sockets(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """`start_with_sockets(api=socket, ...)` hands them over from descriptor 3 on, by name."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(**sockets: socket.socket) -> subprocess.Popen[bytes]:
        # Far above those that the child takes them to.
        numbers = [fcntl.fcntl(each, fcntl.F_DUPFD, 100) for each in sockets.values()]
        flags = [f"--root={tmp_path / 'root'}", "--port=1", "--admin=127.0.0.1:1"]
        command = [sys.executable, "-c", HAND_OVER, ":".join(sockets), str(len(sockets)), *flags]
        given = ",".join(map(str, numbers))
        with (tmp_path / "log").open("ab") as log:
            started.append(
                subprocess.Popen(
                    command, pass_fds=numbers, stderr=log, env=os.environ | {"GIVEN": given}
                )
            )
        for number in numbers:
            os.close(number)
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.wait()


def test_requests_wait_in_a_handed_over_socket_while_no_server_runs(
    start_with_sockets: Callable[..., subprocess.Popen[bytes]],
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as api,
        socket.create_server(("127.0.0.1", 0)) as admin,
    ):
        for status in (b"201 Created", b"200 OK"):
            client = socket.create_connection(api.getsockname(), timeout=100)
            client.sendall(request_bytes("PUT", "/orders"))

            server = start_with_sockets(api=api, admin=admin)

            assert client.makefile("rb").readline().rstrip() == b"HTTP/1.1 " + status
            assert ask(admin.getsockname()[1], "/livez") == b"HTTP/1.1 200 OK"
            client.close()
            server.terminate()
            assert server.wait(100) == 0


def bound(kind: socket.SocketKind = socket.SOCK_STREAM, port: int = 0) -> socket.socket:
    """A socket that does not listen."""
    made = socket.socket(socket.AF_INET, kind)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


def test_a_handed_over_socket_that_cannot_listen_is_refused(
    start_with_sockets: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    with bound() as api, bound(port=api.getsockname()[1]) as other:
        other.listen()

        server = start_with_sockets(api=api)

        assert server.wait(100) == ExitCode.UNAVAILABLE
    log = (tmp_path / "log").read_text()
    assert "cannot listen on descriptor 3 of LISTEN_FDS: Address already in use" in log
    assert "event=listening" not in log


def test_a_handed_over_socket_of_another_kind_is_refused(
    start_with_sockets: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as api, bound(socket.SOCK_DGRAM) as admin:
        server = start_with_sockets(api=api, admin=admin)

        assert server.wait(100) == ExitCode.UNAVAILABLE
    assert "cannot listen on descriptor 4 of LISTEN_FDS" in (tmp_path / "log").read_text()


def test_sockets_for_another_process_are_left_alone(
    start_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))

    server = start_server()

    assert ask(server.port, "/absent") == b"HTTP/1.1 404 Not Found"


def test_a_socket_that_other_machines_reach_needs_tokens(
    start_with_sockets: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """Wherever it comes from."""
    with socket.create_server(("0.0.0.0", 0)) as api:
        process = start_with_sockets(api=api)

        assert process.wait(100) == ExitCode.USAGE
    assert "give --token-file, or --insecure" in (tmp_path / "log").read_text()
