"""Unix sockets: who gets the name, with which mode, and who takes it away."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Barrier, Thread

import pytest

from mq.daemon.sockets import Listener, bind_unix
from mq.disk.files import Files
from mq.errors import ExitCode, StartRefused
from tests.support.processes import Process, Server, wait_until
from tests.support.refusals import start
from tests.support.wire import Wire, request_bytes

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


def test_unix_socket_serves_beside_the_port(start_server: StartServer, path: Path) -> None:
    server = start_server(f"--socket={path}")

    assert ask_unix(path, "PUT", "/orders") == b"HTTP/1.1 201 Created"
    with closing(Wire(server.port)) as wire:
        assert wire.request("GET", "/orders").status == 200
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


def test_one_that_stops_takes_no_socket_away_that_another_has_bound_meanwhile(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, others = bind_unix(path, 0o600), list[Listener]()
    unlink = Files.unlink

    def bind_and_unlink(files: Files, folder_fd: int, name: str) -> None:
        monkeypatch.undo()
        with pytest.raises(StartRefused, match="Address already in use"):
            others.append(bind_unix(path, 0o600))
        unlink(files, folder_fd, name)

    monkeypatch.setattr(Files, "unlink", bind_and_unlink)
    first.close()

    assert not others
    bind_unix(path, 0o600).close()


def test_one_that_stops_closes_a_socket_whose_name_it_cannot_take_away(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = bind_unix(path, 0o600)

    def unlink(files: Files, folder_fd: int, name: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)

    with monkeypatch.context() as patched:
        patched.setattr(Files, "unlink", unlink)
        first.close()

    bind_unix(path, 0o600).close()
    assert not path.exists()


def test_unix_socket_of_a_running_server_is_refused(
    start_server: StartServer, tmp_path: Path, path: Path
) -> None:
    start_server(f"--socket={path}")

    refusal = start("mq", f"--root={tmp_path / 'other'}", "--port=0", f"--socket={path}")

    assert refusal.exit_code == ExitCode.UNAVAILABLE
    assert f"cannot listen on unix socket {path}: Address already in use" in refusal.line
    assert ask_unix(path, "PUT", "/orders") == b"HTTP/1.1 201 Created"


def test_the_folder_of_a_unix_socket_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "run" / "mq.sock"

    refusal = start("mq", f"--root={tmp_path / 'root'}", "--port=0", f"--socket={path}")

    assert refusal.exit_code == ExitCode.UNAVAILABLE
    assert f"{path}: No such file or directory; make the folder {path.parent} or" in refusal.line


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
