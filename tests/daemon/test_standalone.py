"""`mq --standalone`: mover and reaper run beside the server, come back, and never outlive it."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from mq.config import ServerConfig
from mq.daemon.standalone import Child, Supervision, run_children
from tests.support.messages import names_in, write_message
from tests.support.processes import Process, Server, wait_until
from tests.support.wire import Wire, request_bytes, wait_until_read

StartServer = Callable[..., Server]


@pytest.fixture
def standalone(start_server: StartServer) -> Server:
    server = start_server("--standalone", "--keep=0", "--visibility=0.2", "--max-receives=2")
    for child in ("mq-mover", "mq-reaper"):
        wait_until(lambda: f"process={child} event=configuration" in server.log(), 100)
    return server


@contextmanager
def _wire(server: Server) -> Iterator[Wire]:
    with closing(Wire(server.port)) as wire:
        yield wire


def _children(server: Server) -> dict[str, int]:
    """The living children of a server: module and process id."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(parent) == server.popen.pid and state != "Z" and b"-m" in arguments:
            found[arguments[arguments.index(b"-m") + 1].decode()] = int(folder.name)
    return found


def _is_alive(pid: int) -> bool:
    return _state(pid) not in ("", "Z")


def _state(pid: int) -> str:
    """Return a process's state as proc_pid_stat(5) has it, or nothing if there is no such
    process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[0]


def test_message_goes_the_whole_way_by_itself(standalone: Server) -> None:
    with _wire(standalone) as wire:
        wire.request("PUT", "/orders")
        message_id = wire.publish("orders")
        assert wire.receive("orders").headers["x-receive-count"] == "1"

        wait_until(lambda: wire.count("orders") == (1, 0), 100)
        again = wire.receive("orders")
        assert again.headers["x-receive-count"] == "2"

        dead = standalone.root / "queues" / "orders.dead"
        wait_until(lambda: dead.exists() and names_in(dead) == [message_id], 100)
        assert wire.remove("orders.dead", message_id).status == 202

    wait_until(lambda: names_in(standalone.root / "remove") == [], 100)


@pytest.mark.parametrize("child", ["mq_mover", "mq_reaper"])
def test_killed_child_is_started_again(standalone: Server, child: str) -> None:
    killed = _children(standalone)[child]

    os.kill(killed, signal.SIGKILL)

    wait_until(lambda: _children(standalone).get(child, killed) != killed, 100)
    assert f"child={child}" in standalone.log()


def test_restarted_mover_finds_what_came_while_none_ran(standalone: Server) -> None:
    (standalone.root / "queues" / "orders").mkdir()
    mover = _children(standalone)["mq_mover"]
    os.kill(mover, signal.SIGKILL)
    write_message(standalone.root / "delay" / "orders:1")

    wait_until(lambda: names_in(standalone.root / "queues" / "orders") == ["1"])


def test_children_stop_with_the_server(standalone: Server) -> None:
    children = _children(standalone).values()

    assert standalone.stop() == 0

    assert not any(_is_alive(pid) for pid in children)


def test_child_that_is_stopped_with_the_server_is_not_started_again(standalone: Server) -> None:
    """Ctrl-C in a terminal reaches all of them, and a request under way keeps the server."""
    children = _children(standalone)
    with _wire(standalone) as wire:
        wire.request("PUT", "/orders")
        wire.send(request_bytes("POST", "/orders/messages", content_length="4"), b"bo")
        wait_until_read(standalone, wire)

        standalone.popen.send_signal(signal.SIGINT)
        wait_until(lambda: "event=stopping" in standalone.log())
        for pid in children.values():
            os.kill(pid, signal.SIGINT)
        wait_until(lambda: not any(map(_state, children.values())))
        wire.send(b"dy")
        assert wire.answer().status == 201

    assert standalone.popen.wait(30) == 0
    assert "child ended" not in standalone.log()


def test_no_child_outlives_a_killed_server(standalone: Server) -> None:
    children = _children(standalone).values()

    standalone.kill()

    wait_until(lambda: not any(_is_alive(pid) for pid in children))


@pytest.mark.parametrize("child", ["mq_mover", "mq_reaper"])
def test_no_stopped_child_outlives_a_killed_server(standalone: Server, child: str) -> None:
    children = _children(standalone)
    stopped = children[child]
    os.kill(stopped, signal.SIGSTOP)
    wait_until(lambda: _state(stopped) == "T")

    standalone.kill()

    try:
        wait_until(lambda: not any(_is_alive(pid) for pid in children.values()))
    finally:
        for pid in children.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_without_the_flag_there_are_no_children(start_server: StartServer) -> None:
    assert _children(start_server()) == {}


async def test_a_reload_does_not_end_a_child_that_is_just_starting() -> None:
    child = Child(["timeit", "import time; time.sleep(60)"])
    running = asyncio.create_task(child.keep_running(asyncio.Event()))
    while child._process is None:
        await asyncio.sleep(0.001)

    child.reload()

    # Of two signals that wait, the process gets SIGHUP first.
    child._process.terminate()
    assert await child._process.wait() == -signal.SIGTERM
    running.cancel()


@pytest.mark.parametrize("more", [(), ("--reuse-port",)])
def test_port_for_sqs_is_not_that_of_the_server(tmp_path: Path, more: tuple[str, ...]) -> None:
    """Both would listen with --reuse-port, and the kernel give each the clients of the other."""
    flags = ("--standalone", "--admin=", "--port=7999", "--sqs-port=7999", *more)
    refused = Process("mq", f"--root={tmp_path / 'root'}", *flags, log=tmp_path / "log")
    try:
        assert refused.popen.wait(100) == 2
    finally:
        refused.kill()

    assert "--port and --sqs-port are both 7999" in refused.log()


async def test_child_that_cannot_be_started_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []
    both_again = asyncio.Event()

    async def refuse(_program: str, _flag: str, module: str, *_: object, **__: object) -> None:
        tries.append(module)
        if min(tries.count("mq_mover"), tries.count("mq_reaper")) == 3:
            both_again.set()
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr("mq.daemon.standalone.CHILD_BACKOFF_SECONDS", (0.001, 0.002))
    monkeypatch.setattr("asyncio.create_subprocess_exec", refuse)

    children = run_children(ServerConfig(tmp_path), Supervision(0.0), asyncio.Event())
    async with children, asyncio.timeout(20):
        await both_again.wait()
