"""A server as a process: its configuration, its logs, how it stops, how two start at once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from mq.config import ServerConfig
from mq.web.connections.http_server import HttpServer
from tests.support.processes import Process, Server, wait_until


def configuration(log: str) -> dict[str, str]:
    """What the one line says."""
    [line] = [line for line in log.splitlines() if " event=configuration " in line]
    return dict(word.split("=", 1) for word in line.split())


def start_with(processes: list[Process], log: Path, *flags: str, **environment: str) -> Process:
    """A server that reads this environment, once it listens."""
    process = Process("mq", "--port=0", *flags, log=log, **environment)
    processes.append(process)
    wait_until_listening(process)
    return process


def wait_until_listening(process: Process) -> None:
    wait_until(lambda: "listening" in process.log() or process.popen.poll() is not None, 100)
    assert "listening" in process.log(), process.log()


def request(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


# Configuration


def test_configuration_is_one_line_with_every_setting(server: Server) -> None:
    found = configuration(server.log())

    assert set(ServerConfig.__dataclass_fields__) <= set(found)
    assert found["process"] == "mq"
    assert found["root"] == str(server.root)
    assert found["visibility_seconds"] == "30.0"
    assert found["max_body_bytes"] == str(256 * 1024 * 1024)
    assert found["min_free_bytes"] == "default"
    assert found["mode"] == "700"


def test_requests_are_not_logged(server: Server) -> None:
    for _ in range(2):
        assert request(server.port, "PUT", "/unlogged")[0] in (200, 201)

    assert "/unlogged" not in server.log()


def test_environment_beats_defaults_and_flags_beat_it(
    tmp_path: Path, processes: list[Process]
) -> None:
    environment = {
        "MQ_ROOT": str(tmp_path / "root"),
        "MQ_WORKERS": "3",
        "MQ_VISIBILITY": "7.5",
        "MQ_MAX_BODY": "64KiB",
        "MQ_MIN_FREE": "0",
        "MQ_MODE": "750",
    }

    process = start_with(processes, tmp_path / "log", "--visibility=9", **environment)

    found = configuration(process.log())
    assert found["root"] == environment["MQ_ROOT"]
    assert found["workers"] == "3"
    assert found["visibility_seconds"] == "9.0"
    assert found["max_body_bytes"] == "65536"
    assert found["min_free_bytes"] == "0"
    assert found["peers"] == "0"
    assert (tmp_path / "root").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "root" / "queues").stat().st_mode & 0o777 == 0o750


def test_relative_root_is_logged_as_the_absolute_one(
    tmp_path: Path, processes: list[Process]
) -> None:
    relative = os.path.relpath(tmp_path / "root")

    process = start_with(processes, tmp_path / "log", f"--root={relative}")

    assert configuration(process.log())["root"] == f"{Path.cwd()}/{relative}"
    assert (tmp_path / "root" / "queues").is_dir()


# Logs


def test_every_line_of_a_json_log_is_an_object(tmp_path: Path, processes: list[Process]) -> None:
    flags = [f"--root={tmp_path / 'root'}", "--standalone", "--log-format=json"]
    process = start_with(processes, tmp_path / "log", *flags)
    wait_until(lambda: process.log().count('"configuration"') == 3, 100)

    assert process.stop() == 0

    events: list[dict[str, Any]] = [json.loads(line) for line in process.log().splitlines()]
    assert all({"time", "level", "process", "event"} <= set(event) for event in events)
    assert {event["process"] for event in events} == {"mq", "mq-mover", "mq-reaper"}
    by_name = {event["event"]: event for event in events if event["process"] == "mq"}
    assert {"configuration", "listening", "stopping", "stopped"} <= set(by_name)
    assert by_name["configuration"]["visibility_seconds"] == 30.0
    assert by_name["listening"]["url"].startswith("http://127.0.0.1:")


def test_every_line_of_a_text_log_begins_with_time_level_process_and_event(
    server: Server,
) -> None:
    assert server.stop() == 0

    for line in server.log().splitlines():
        names = [word.partition("=")[0] for word in line.split()[:4]]
        assert names == ["time", "level", "process", "event"]


# Stopping


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("flags", [(), ("--standalone",)], ids=["alone", "standalone"])
def test_idle_server_stops_with_exit_code_0(
    start_server: Callable[..., Server], number: signal.Signals, flags: tuple[str, ...]
) -> None:
    server = start_server(*flags)
    idle = socket.create_connection(("127.0.0.1", server.port))

    server.popen.send_signal(number)

    # A second by itself. The bound is for a machine that has other things to do.
    assert server.popen.wait(8) == 0
    assert server.log().splitlines()[-1].endswith("event=stopped")
    assert "Traceback" not in server.log()
    idle.close()


def test_request_under_way_is_answered_before_the_server_stops(
    start_server: Callable[..., Server],
) -> None:
    server = start_server()
    assert request(server.port, "PUT", "/orders") == (201, b"")
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as slow:
        slow.sendall(
            b"POST /orders/messages HTTP/1.1\r\nHost: mq\r\nContent-Length: 10\r\n"
            b"Expect: 100-continue\r\n\r\n"
        )
        assert slow.recv(100).startswith(b"HTTP/1.1 100 ")
        slow.sendall(b"first")
        server.popen.terminate()
        wait_until(lambda: is_refused(server.port))

        slow.sendall(b" last")
        answer = slow.recv(1000)

    assert answer.startswith(b"HTTP/1.1 201 ")
    assert server.popen.wait(30) == 0
    assert request(start_server().port, "GET", "/orders/messages") == (200, b"first last")


async def test_request_that_never_ends_is_cut_off() -> None:
    begun = asyncio.Event()

    async def read_all(request: web.BaseRequest) -> web.StreamResponse:
        begun.set()
        await request.read()
        return web.Response()

    http = HttpServer(read_all)
    runner = web.ServerRunner(http, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    reader, writer = await asyncio.open_connection(*runner.addresses[0])
    writer.write(b"POST / HTTP/1.1\r\nHost: mq\r\nContent-Length: 10\r\n\r\nhalf")
    await begun.wait()

    await http.drain(0.1)
    await runner.cleanup()

    assert await reader.read() == b""
    writer.close()


def is_refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=20).close()
    except ConnectionRefusedError:
        return True
    return False


def test_children_of_standalone_end_with_it(start_server: Callable[..., Server]) -> None:
    """They end even when it is killed."""
    server = start_server("--standalone")
    wait_until(lambda: len(children_of(server.popen.pid)) == 2, 100)
    children = children_of(server.popen.pid)

    server.kill()

    wait_until(lambda: not any(Path(f"/proc/{child}/exe").exists() for child in children))


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_child_that_was_killed_is_started_again(start_server: Callable[..., Server]) -> None:
    server = start_server("--standalone")
    wait_until(lambda: server.log().count("event=configuration") == 3, 100)
    [mover, reaper] = children_of(server.popen.pid)

    os.kill(mover, signal.SIGKILL)

    wait_until(lambda: server.log().count("process=mq-mover event=configuration") == 2, 100)
    assert reaper in children_of(server.popen.pid)
    assert mover not in children_of(server.popen.pid)


# Starting


def test_sighup_at_any_moment_kills_no_server(tmp_path: Path, processes: list[Process]) -> None:
    """Neither while it is being loaded nor when it has stopped."""
    process = Process("mq", f"--root={tmp_path / 'root'}", "--port=0", log=tmp_path / "log")
    processes.append(process)

    def hang_up() -> None:
        if process.popen.poll() is None:
            process.popen.send_signal(signal.SIGHUP)

    def is_listening() -> bool:
        hang_up()
        return "listening" in process.log()

    def has_ended() -> bool:
        hang_up()
        return process.popen.poll() is not None

    maps = Path(f"/proc/{process.popen.pid}/maps")
    wait_until(lambda: "aiohttp" in maps.read_text(), 100)
    wait_until(lambda: is_listening() or has_ended(), 100)
    assert process.popen.poll() is None

    process.popen.terminate()
    wait_until(has_ended, 15)

    assert process.popen.returncode == 0


def test_servers_that_start_at_once_on_a_fresh_root_all_start(
    tmp_path: Path, processes: list[Process]
) -> None:
    """They make the same folders and the same format file, and probe the file system."""
    for attempt in range(3):
        root = tmp_path / f"root-{attempt}"
        servers = [
            Process("mq", f"--root={root}", "--port=0", log=tmp_path / f"log-{attempt}-{number}")
            for number in range(3)
        ]
        processes += servers
        for server in servers:
            wait_until_listening(server)

        assert (root / "format").read_text() == "mq 1\n"
        assert [server.stop() for server in servers] == [0, 0, 0]


def test_second_server_gives_out_what_the_first_has_taken(
    start_server: Callable[..., Server],
) -> None:
    first, second = start_server(), start_server()

    assert request(first.port, "PUT", "/orders") == (201, b"")
    assert request(first.port, "POST", "/orders/messages", b"one")[0] == 201

    assert request(second.port, "GET", "/orders/messages") == (200, b"one")
    assert request(first.port, "GET", "/orders/messages") == (204, b"")
