"""Where a server listens: several addresses, one port for several servers, or nowhere."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.config import Address
from mq.daemon.sockets import bind_address
from mq.errors import ExitCode
from tests.support.processes import Process, Server, wait_until
from tests.support.refusals import start
from tests.support.wire import request_bytes

StartServer = Callable[..., Server]


def ask(port: int, target: str, host: str = "127.0.0.1") -> bytes:
    with socket.create_connection((host, port), timeout=10) as client:
        client.sendall(request_bytes("GET", target))
        return client.makefile("rb").readline().rstrip()


@pytest.mark.parametrize("module", ["mq", "mq_sqs"])
def test_nowhere_to_listen_is_refused(tmp_path: Path, module: str) -> None:
    refusal = start(module, f"--root={tmp_path / 'root'}", "--address=", "--admin=")

    assert refusal.exit_code == ExitCode.USAGE
    assert "nothing to listen on: --address is empty" in refusal.line
    assert "--socket" not in refusal.line


def test_a_name_may_have_several_addresses_with_one_port(start_server: StartServer) -> None:
    server = start_server("--address=localhost")

    found = {info[4][0] for info in socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM)}
    assert server.log().count("event=listening") == len(found)
    for host in found:
        assert ask(server.port, "/absent", str(host)) == b"HTTP/1.1 404 Not Found"


def test_servers_share_a_port(start_server: StartServer) -> None:
    first = start_server("--reuse-port")
    root = first.root

    second = start_server("--reuse-port", f"--port={first.port}", root=root)

    assert second.port == first.port
    first.stop()
    assert ask(second.port, "/absent") == b"HTTP/1.1 404 Not Found"


def test_without_the_flag_a_port_is_not_shared(start_server: StartServer, tmp_path: Path) -> None:
    first = start_server("--reuse-port")

    refusal = start("mq", f"--root={tmp_path / 'root'}", f"--port={first.port}", "--admin=")

    assert refusal.exit_code == ExitCode.UNAVAILABLE


def listen_beside(address: tuple[str, int]) -> None:
    """Listen as another user may, who binds the port before or while the server does."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(address)
        other.listen()


def test_nobody_else_can_listen_from_the_moment_a_port_is_bound() -> None:
    """Bound alone it would be anybody's who binds and listens first, and gets the tokens then."""
    [listener] = bind_address(Address("127.0.0.1", 0), None)

    with pytest.raises(OSError, match="Address already in use"):
        listen_beside(("127.0.0.1", listener.port))

    listener.close()


@pytest.mark.parametrize("flag", ["--port={}", "--admin=127.0.0.1:{}"])
def test_of_servers_that_start_at_once_one_gets_the_port(
    tmp_path: Path, processes: list[Process], flag: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for number in range(4):
        flags = [f"--root={tmp_path / str(number)}", "--port=0", "--admin=", flag.format(port)]
        processes.append(Process("mq", *flags, log=tmp_path / f"log-{number}"))

    def is_settled(process: Process) -> bool:
        return "event=listening" in process.log() or process.popen.poll() is not None

    wait_until(lambda: all(map(is_settled, processes)), 100)

    [_] = [each for each in processes if "event=listening" in each.log()]
    for each in processes:
        if "event=listening" not in each.log():
            assert each.popen.returncode == ExitCode.UNAVAILABLE
            assert f"cannot listen on 127.0.0.1 port {port}" in each.log()


# The admin listener


def test_the_environment_may_switch_the_admin_listener_off(
    tmp_path: Path, processes: list[Process]
) -> None:
    flags = [f"--root={tmp_path / 'root'}", "--port=0"]
    processes.append(Process("mq", *flags, log=tmp_path / "log", MQ_ADMIN="off"))
    wait_until(lambda: "event=listening" in processes[-1].log(), 100)

    assert "event=admin" not in processes[-1].log()


def test_a_taken_admin_address_is_refused_by_name(
    start_server: StartServer, tmp_path: Path
) -> None:
    port = start_server("--admin=127.0.0.1:0").admin_port

    refusal = start("mq", f"--root={tmp_path / 'root'}", "--port=0", f"--admin=127.0.0.1:{port}")

    assert refusal.exit_code == ExitCode.UNAVAILABLE
    assert f"cannot listen on 127.0.0.1 port {port} for --admin" in refusal.line


def test_two_servers_with_the_default_admin_address_both_run(
    tmp_path: Path, processes: list[Process]
) -> None:
    """One of them does without, or both: this machine may run another."""
    for number in range(2):
        flags = [f"--root={tmp_path / str(number)}", "--port=0"]
        processes.append(Process("mq", *flags, log=tmp_path / f"log-{number}"))
        wait_until(lambda: "event=listening" in processes[-1].log(), 100)

    assert any("no admin listener" in process.log() for process in processes)
    assert all(process.popen.poll() is None for process in processes)


@pytest.mark.parametrize("value", ["8081", "127.0.0.1", "host:port", "127.0.0.1:70000", "[::1:1"])
def test_a_bad_admin_address_is_named(tmp_path: Path, value: str) -> None:
    refusal = start("mq", f"--root={tmp_path / 'root'}", f"--admin={value}")

    assert refusal.exit_code == ExitCode.USAGE
    assert "HOST:PORT" in refusal.line
