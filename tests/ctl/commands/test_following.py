"""`mqctl tail -f` of what goes away and comes back: a server, or the folders."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from mq.ctl.commands import reading
from mq.ctl.ways.access import ShownMessage
from mq.ctl.ways.by_root import RootAccess
from mq.errors import ExitCode, StoreUnavailable
from tests.support.mqctl import without_ours
from tests.support.processes import Server
from tests.support.visitors import ORDERS, SMALL, send
from tests.support.wire import Wire

StartServer = Callable[..., Server]
Connect = Callable[[Server], Wire]


class Tail:
    """`mqctl tail -f orders`."""

    def __init__(self, server: Server) -> None:
        command = [sys.executable, "-m", "mq.ctl", "tail", "-f", "orders", "--url", server.url]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=without_ours()
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.out, self.err = self.process.stdout, self.process.stderr


@pytest.fixture
def server(start_server: StartServer, connect: Connect) -> Server:
    """A server with a queue `orders`, which has one message."""
    server = start_server()
    wire = connect(server)
    wire.request("PUT", "/orders")
    wire.publish("orders", b"before")
    return server


@pytest.fixture
def tail(server: Server) -> Iterator[Tail]:
    """It has written the first message."""
    tail = Tail(server)
    assert tail.out.readline() == b"before\n"
    yield tail
    tail.process.kill()
    tail.process.communicate()


def test_it_goes_on_after_a_restart_and_says_once_that_the_server_is_away(
    server: Server, tail: Tail, start_server: StartServer, connect: Connect
) -> None:
    server.kill()
    told = tail.err.readline().decode()
    again = start_server(f"--port={server.port}", root=server.root)
    wire = connect(again)
    bodies = [f"{number}".encode() for number in range(3)]
    for body in bodies:
        wire.publish("orders", body)

    # Neither the first message again, nor without one of the others.
    assert [tail.out.readline() for _ in bodies] == [body + b"\n" for body in bodies]
    assert told.startswith(f"mqctl: {server.url} does not answer: ")
    assert told.endswith("; trying again each second\n")
    tail.process.send_signal(signal.SIGINT)
    out, err = tail.process.communicate(timeout=60)
    assert (out, err.strip(), tail.process.returncode) == (b"", b"", 130)


def test_it_goes_on_though_the_last_message_was_removed_meanwhile(
    server: Server, tail: Tail, start_server: StartServer, connect: Connect
) -> None:
    server.kill()
    tail.err.readline()
    wire = connect(start_server(f"--port={server.port}", root=server.root))
    wire.remove("orders", wire.receive("orders").headers["x-message-id"])
    wire.publish("orders", b"after")

    assert tail.out.readline() == b"after\n"


def test_its_reader_may_go_while_the_server_is_away(server: Server, tail: Tail) -> None:
    server.kill()
    tail.err.readline()

    tail.out.close()

    assert tail.process.wait(60) == 128 + signal.SIGPIPE
    assert tail.err.read() == b""


def test_a_server_that_comes_back_without_the_queue_ends_it(
    server: Server, tail: Tail, start_server: StartServer, connect: Connect
) -> None:
    server.kill()
    tail.err.readline()
    other = start_server(f"--port={server.port}", root=server.root.with_name("other"))

    assert other.url == server.url
    assert tail.process.wait(60) == ExitCode.NOT_FOUND


def test_it_goes_on_after_a_while_in_which_the_folders_cannot_be_read(
    access: RootAccess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failures = iter([StoreUnavailable("not now"), StoreUnavailable("not yet")])
    peek_behind = access.peek_behind
    message_id = send(access, SMALL)

    def peek(*arguments: Any) -> Sequence[ShownMessage]:
        for failure in failures:
            raise failure
        return peek_behind(*arguments)

    monkeypatch.setattr(access, "peek_behind", peek)
    monkeypatch.setattr(access, "wait", lambda seconds: None)
    message = next(reading._following(access, ORDERS, None))

    message.body.close()
    assert message.message_id == message_id
    assert capsys.readouterr().err == "mqctl: not now; trying again each second\n"
