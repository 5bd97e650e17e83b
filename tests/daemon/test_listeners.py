"""Where a server listens: unix sockets, several addresses, one port for several servers."""

from __future__ import annotations

import socket
import stat
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread

import pytest

from mq.config import Address
from mq.daemon.sockets import Listener, bind_address, bind_unix
from mq.errors import ExitCode, StartRefused
from tests.support.processes import Process, Server, wait_until
from tests.support.refusals import start
from tests.support.wire import request_bytes

StartServer = Callable[..., Server]
BINDERS, ROUNDS = 4, 25


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mq.sock"


def ask_unix(path: Path, method: str, target: str) -> bytes:
    """The status line of the answer."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(path))
        client.sendall(request_bytes(method, target))
        return client.makefile("rb").readline().rstrip()


def ask(port: int, target: str, host: str = "127.0.0.1") -> bytes:
    with socket.create_connection((host, port), timeout=10) as client:
        client.sendall(request_bytes("GET", target))
        return client.makefile("rb").readline().rstrip()


# Unix socket


def test_unix_socket_serves_beside_the_port(start_server: StartServer, path: Path) -> None:
    server = start_server(f"--socket={path}")

    assert ask_unix(path, "PUT", "/orders") == b"HTTP/1.1 201 Created"
    assert ask(server.port, "/orders") == b"HTTP/1.1 200 OK"
    assert f"event=listening url=unix:{path}" in server.log()


def test_unix_socket_alone_opens_no_port(
    tmp_path: Path, path: Path, processes: list[Process]
) -> None:
    flags = [f"--root={tmp_path / 'root'}", "--address=", "--admin=", f"--socket={path}"]
    server = Process("mq", *flags, log=tmp_path / "log")
    processes.append(server)
    wait_until(lambda: "event=listening" in server.log())

    assert ask_unix(path, "PUT", "/orders") == b"HTTP/1.1 201 Created"
    assert "http://" not in server.log()


@pytest.mark.parametrize(("flags", "mode"), [((), 0o600), (("--socket-mode=660",), 0o660)])
def test_unix_socket_has_its_mode_from_the_first_moment(
    start_server: StartServer, path: Path, flags: tuple[str, ...], mode: int
) -> None:
    server = start_server(f"--socket={path}", *flags)

    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE((server.root / "new").stat().st_mode) == 0o700


def test_unix_socket_goes_with_its_server(start_server: StartServer, path: Path) -> None:
    server = start_server(f"--socket={path}")
    assert path.is_socket()

    assert server.stop() == 0

    assert not path.exists()


def test_unix_socket_of_a_crash_is_replaced(start_server: StartServer, path: Path) -> None:
    start_server(f"--socket={path}").kill()
    assert path.is_socket()

    start_server(f"--socket={path}")

    assert ask_unix(path, "PUT", "/orders") == b"HTTP/1.1 201 Created"


def test_of_those_that_bind_at_once_where_a_crash_left_a_socket_one_gets_the_path(
    path: Path,
) -> None:
    for _ in range(ROUNDS):
        with socket.socket(socket.AF_UNIX) as crashed:
            crashed.bind(str(path))
        bound, refused = bind_at_once(path)

        assert len(bound) == 1
        assert len(refused) == BINDERS - 1
        assert all("Address already in use" in str(each) for each in refused)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
        bound[0].close()
        assert not path.exists()


def bind_at_once(path: Path) -> tuple[list[Listener], list[StartRefused]]:
    """What those get that bind the socket in threads, and why the others do not."""
    bound: list[Listener] = []
    refused: list[StartRefused] = []
    ready = Barrier(BINDERS)

    def bind() -> None:
        ready.wait()
        try:
            bound.append(bind_unix(path, 0o600))
        except StartRefused as error:
            refused.append(error)

    threads = [Thread(target=bind) for _ in range(BINDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return bound, refused


def test_unix_socket_of_a_running_server_is_refused(
    start_server: StartServer, tmp_path: Path, path: Path
) -> None:
    start_server(f"--socket={path}")

    refusal = start("mq", f"--root={tmp_path / 'other'}", "--port=0", f"--socket={path}")

    assert refusal.exit_code == ExitCode.UNAVAILABLE
    assert f"cannot listen on unix socket {path}: Address already in use" in refusal.line
    assert ask_unix(path, "PUT", "/orders") == b"HTTP/1.1 201 Created"


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_what_is_no_socket_is_not_replaced(tmp_path: Path, path: Path, kind: str) -> None:
    (tmp_path / "kept").write_bytes(b"kept")
    match kind:
        case "file":
            path.write_bytes(b"kept")
        case "link":
            path.symlink_to(tmp_path / "kept")
        case "folder":
            path.mkdir()

    refusal = start("mq", f"--root={tmp_path / 'root'}", "--port=0", f"--socket={path}")

    assert refusal.exit_code == ExitCode.UNAVAILABLE
    assert "there is a file of that name" in refusal.line or "File exists" in refusal.line
    assert path.exists()
    assert (tmp_path / "kept").read_bytes() == b"kept"


def test_socket_that_took_its_place_is_not_taken_away(
    start_server: StartServer, path: Path
) -> None:
    server = start_server(f"--socket={path}")
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))

        assert server.stop() == 0

        assert path.is_socket()


def test_nowhere_to_listen_is_refused(tmp_path: Path) -> None:
    refusal = start("mq", f"--root={tmp_path / 'root'}", "--address=", "--admin=")

    assert refusal.exit_code == ExitCode.USAGE
    assert "nothing to listen on: give --address or --socket" in refusal.line


# Addresses


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

    wait_until(lambda: all(map(is_settled, processes)), 30)

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
    wait_until(lambda: "event=listening" in processes[-1].log(), 30)

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
        wait_until(lambda: "event=listening" in processes[-1].log(), 30)

    assert any("no admin listener" in process.log() for process in processes)
    assert all(process.popen.poll() is None for process in processes)


@pytest.mark.parametrize("value", ["8081", "127.0.0.1", "host:port", "127.0.0.1:70000", "[::1:1"])
def test_a_bad_admin_address_is_named(tmp_path: Path, value: str) -> None:
    refusal = start("mq", f"--root={tmp_path / 'root'}", f"--admin={value}")

    assert refusal.exit_code == ExitCode.USAGE
    assert "HOST:PORT" in refusal.line
