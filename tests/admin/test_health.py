"""`/livez` and `/readyz`: from the first moment to the last."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mq.lifecycle import FIXED_FOLDERS
from tests.support.processes import ADMIN, IMPATIENT, Process, Server, wait_until
from tests.support.scraping import scrape
from tests.support.wire import Wire, WireAnswer, assert_problem, request_bytes

StartServer = Callable[..., Server]


def ask(port: int, path: str, method: str = "GET") -> WireAnswer:
    wire = Wire(port)
    try:
        return wire.request(method, path)
    finally:
        wire.close()


@pytest.fixture
def server(start_server: StartServer) -> Server:
    return start_server("--admin=127.0.0.1:0", module=IMPATIENT)


def test_a_server_that_serves_is_alive_and_ready(server: Server) -> None:
    for path, text in (("/livez", b"alive\n"), ("/readyz", b"ready\n")):
        answer = ask(server.admin_port, path)

        assert (answer.status, answer.body) == (200, text)
        assert answer.headers["cache-control"] == "no-store, no-transform"
        assert ask(server.admin_port, path, "HEAD").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_the_admin_listener_changes_nothing(server: Server, method: str) -> None:
    answer = ask(server.admin_port, "/livez", method)

    assert_problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/livez", "/nowhere", "/api/orders"])
def test_an_answer_to_a_client_that_waits_with_its_body_is_the_last(
    server: Server, method: str, path: str
) -> None:
    """It may send that body or another request, and the server could not tell which."""
    with closing(Wire(server.admin_port)) as wire:
        answer = wire.request(method, path, expect="100-continue", content_length="10")

    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("path", ["/orders", "/orders/messages", "/livez/", "/..%2flivez"])
def test_the_admin_listener_knows_no_queues(server: Server, path: str) -> None:
    answer = ask(server.admin_port, path)

    assert_problem(answer, 404, "unknown-path", "queues and messages are on the main port")


def test_the_openapi_document_is_served(server: Server) -> None:
    answer = ask(server.admin_port, "/openapi.json")

    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["openapi"].startswith("3.1.")


def test_a_server_that_sweeps_at_its_start_is_alive_and_not_ready(
    root: Path, tmp_path: Path, processes: list[Process]
) -> None:
    """The locks of these unfinished deletions are held, so the sweep waits a second for each."""
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
    wait_until(lambda: ADMIN.search(process.log()), 100)
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
    wait_until(lambda: ask(port, "/readyz").status == 200, 100)
    assert "event=listening" in process.log()


def test_a_server_below_its_floor_is_alive_and_not_ready(start_server: StartServer) -> None:
    server = start_server("--admin=127.0.0.1:0", f"--min-free={2**60}")

    assert_problem(ask(server.admin_port, "/readyz"), 503, "unavailable", "--min-free")
    assert ask(server.admin_port, "/livez").status == 200


def test_a_server_without_its_format_file_is_not_ready(server: Server) -> None:
    held = (server.root / "format").rename(server.root.parent / "format")

    assert_problem(ask(server.admin_port, "/readyz"), 503, "unavailable", "format is missing")
    wait_until(lambda: "root in trouble" in server.log(), 100)
    assert ask(server.admin_port, "/livez").status == 200
    held.rename(server.root / "format")
    assert ask(server.admin_port, "/readyz").status == 200
    wait_until(lambda: "root in order again" in server.log(), 100)


@pytest.mark.parametrize("puts_another", [True, False])
def test_a_server_whose_root_was_moved_is_not_ready_nor_alive(
    server: Server, start_server: StartServer, puts_another: bool
) -> None:
    """What is published there would be out of sight after a restart."""

    def publish() -> WireAnswer:
        with closing(Wire(server.port)) as wire:
            return wire.request("POST", "/orders/messages", b"body")

    assert ask(server.port, "/orders", "PUT").status == 201
    moved = server.root.rename(server.root.parent / "moved")
    if puts_another:
        start_server(root=server.root)

    assert_problem(ask(server.admin_port, "/readyz"), 503, "unavailable", "was moved away")
    wait_until(lambda: ask(server.admin_port, "/livez").status == 503, 100)
    wait_until(lambda: "root in trouble" in server.log())
    assert_problem(publish(), 503, "unavailable", "was moved away")
    if not puts_another:
        moved.rename(server.root)
        wait_until(lambda: ask(server.admin_port, "/livez").status == 200, 100)
        assert ask(server.admin_port, "/readyz").status == 200
        assert publish().status == 201


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_server_on_a_read_only_file_system_is_not_ready(
    loop_mount: Callable[..., Path], start_server: StartServer
) -> None:
    folder = loop_mount("ext4", 16)
    server = start_server("--admin=127.0.0.1:0", root=folder / "root", module=IMPATIENT)
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)

    assert_problem(ask(server.admin_port, "/readyz"), 503, "unavailable", "read-only")
    wait_until(lambda: "root in trouble" in server.log(), 100)
    server.stop()


def test_a_server_whose_ext4_has_met_an_error_is_not_ready(
    loop_mount: Callable[..., Path], start_server: StartServer
) -> None:
    """It is still mounted to be written, and refuses every change."""
    folder = loop_mount("ext4", 16, mount=("errors=remount-ro",))
    server = start_server("--admin=127.0.0.1:0", root=folder / "root", module=IMPATIENT)
    assert ask(server.admin_port, "/readyz").status == 200
    device = os.stat(folder).st_dev
    block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
    Path(f"/sys/fs/ext4/{block}/trigger_fs_error").write_text("1")

    assert_problem(ask(server.admin_port, "/readyz"), 503, "unavailable", "read-only")
    wait_until(lambda: "root in trouble" in server.log(), 100)
    server.stop()


def test_an_idle_server_stops_though_its_file_system_is_frozen(
    loop_mount: Callable[..., Path], start_server: StartServer
) -> None:
    """A look at the root changes nothing, and so does not wait for the end of a snapshot."""
    folder = loop_mount("ext4", 16)
    server = start_server("--admin=127.0.0.1:0", root=folder / "root", module=IMPATIENT)
    subprocess.run(["fsfreeze", "--freeze", str(folder)], check=True)
    try:
        assert ask(server.admin_port, "/readyz").status == 200
        server.popen.send_signal(signal.SIGTERM)

        assert server.popen.wait(30) == 0
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(folder)], check=True)


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
    assert server.popen.wait(30) == 0
