"""The image's health check, on servers that listen in any way."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mq.config import ServerConfig
from mq.daemon import healthy
from mq.daemon.cli import mq
from mq.daemon.healthy import ask, command_line, config_of
from tests.support.certificates import Pair, make_certificate
from tests.support.processes import FreshServer, Process, Server, free_port, wait_until
from tests.support.token_files import make_token_file

StartServer = Callable[..., Server]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_certificate(tmp_path_factory.mktemp("tls"), "mq.example.org")


@pytest.fixture
def start_server(tmp_path: Path, processes: list[Process]) -> StartServer:
    """Starts servers whose command line the check can read."""

    def start(*flags: str) -> Server:
        processes.append(server := FreshServer(tmp_path / "root", *flags, log=tmp_path / "mq.log"))
        return server

    return start


def is_healthy(process: Process, **environment: str) -> bool:
    command = [sys.executable, "-m", "mq.daemon.healthy", str(process.popen.pid)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, env=environment
    )
    assert "Traceback" not in done.stderr
    assert (done.returncode == 0) == (done.stderr == "")
    return done.returncode == 0


def test_a_server_with_an_admin_listener_is_asked_there(start_server: StartServer) -> None:
    """No proxy is asked, whatever the container's variables say."""
    server = start_server(f"--admin=0.0.0.0:{free_port()}", "--insecure")

    assert is_healthy(server)
    assert is_healthy(server, http_proxy="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9")
    server.kill()
    assert not is_healthy(server)


def test_a_server_that_is_not_ready_is_not_healthy(start_server: StartServer) -> None:
    assert not is_healthy(start_server(f"--admin=127.0.0.1:{free_port()}", f"--min-free={2**60}"))


def test_a_certificate_for_another_name_does_not_matter(
    start_server: StartServer, pair: Pair
) -> None:
    server = start_server(f"--admin=127.0.0.1:{free_port()}", *pair.flags())

    assert is_healthy(server, https_proxy="http://127.0.0.1:9")


@pytest.mark.parametrize("with_tls", [False, True])
def test_without_an_admin_listener_the_api_is_asked(
    start_server: StartServer, pair: Pair, tmp_path: Path, with_tls: bool
) -> None:
    """A server with tokens too: it answers, if only that one is needed."""
    tokens = make_token_file(tmp_path, "a read * kT3vVt9xkq3mP2sYw8LrBg")
    more = pair.flags() if with_tls else ()

    server = start_server(f"--port={free_port()}", "--admin=off", f"--token-file={tokens}", *more)

    assert is_healthy(server)


def test_variables_of_the_server_count(
    tmp_path: Path, processes: list[Process], pair: Pair
) -> None:
    server = Process(
        "mq", f"--root={tmp_path / 'root'}", log=tmp_path / "log", MQ_PORT=str(free_port()),
        MQ_ADMIN="off", MQ_CERT=str(pair.cert), MQ_KEY=str(pair.key),
    )  # fmt: skip
    processes.append(server)
    wait_until(lambda: "event=listening" in server.log(), 100)

    assert is_healthy(server)


def test_a_unix_socket_is_asked_where_there_is_nothing_else(
    tmp_path: Path, processes: list[Process]
) -> None:
    flags = (f"--root={tmp_path / 'root'}", "--address=", "--admin=off")
    server = Process("mq", *flags, f"--socket={tmp_path / 'mq.sock'}", log=tmp_path / "log")
    processes.append(server)
    wait_until(lambda: "event=listening" in server.log(), 100)

    assert is_healthy(server)


@pytest.mark.parametrize("status", [200, 401, 404, 500, 503])
def test_an_api_that_fails_is_not_healthy(status: int, tmp_path: Path) -> None:
    """Whatever else it answers, it works."""
    path = tmp_path / "mq.sock"
    with socket.socket(socket.AF_UNIX) as listening, ThreadPoolExecutor() as threads:
        listening.bind(str(path))
        listening.listen()
        asked = threads.submit(ask, ServerConfig(address="", admin=None, socket=path))
        connection, _ = listening.accept()
        with connection:
            assert connection.recv(4096).startswith(b"GET / ")
            connection.sendall(b"HTTP/1.1 %d What\r\nContent-Length: 3\r\n\r\nwhy" % status)
            assert asked.result(30) == (f"{status} why" if status >= 500 else None)


def test_without_a_pid_the_first_server_that_runs_is_asked(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container has one alone. On this machine others may run as well."""
    admin = f"127.0.0.1:{free_port()}"
    server = start_server(f"--admin={admin}")
    monkeypatch.setattr(healthy, "_processes", lambda: [os.getpid(), server.popen.pid])

    assert str(config_of(None, [mq]).admin) == admin


def test_another_program_is_not_asked() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mq.daemon.healthy", "1"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stderr) == (1, "not healthy: process 1 is not mq\n")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("/opt/mq/bin/python /opt/mq/bin/mq --standalone", ["mq", "--standalone"]),
        ("/usr/bin/python3.13 -u -m mq --port 1", ["mq", "--port", "1"]),
        ("/sbin/docker-init -- mq", ["mq"]),
        ("tini -- /opt/mq/bin/python3 /opt/mq/bin/mq", ["mq"]),
        ("/opt/mq/bin/python /opt/mq/bin/mq-sqs --port 1", ["mq-sqs", "--port", "1"]),
        ("/opt/mq/bin/python -m mq_sqs", ["mq-sqs"]),
        ("/opt/mq/bin/python /opt/mq/bin/mqctl send mq", ["mqctl", "send", "mq"]),
        ("/opt/mq/bin/python -m mq.daemon.healthy", ["mq.daemon.healthy"]),
        ("sh -c mq", ["sh", "-c", "mq"]),
        ("", None),
    ],
)
def test_a_server_is_known_by_its_command_line(
    tmp_path: Path, words: str, found: list[str] | None
) -> None:
    (tmp_path / "cmdline").write_text("".join(f"{word}\0" for word in words.split()))

    assert command_line(tmp_path) == found
