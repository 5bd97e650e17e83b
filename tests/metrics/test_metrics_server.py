"""`--metrics-port`: clients that do nothing, are slow or go away cost others nothing."""

from __future__ import annotations

import errno
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from mq.config import Address
from mq.metrics import metrics_server
from mq.metrics.metrics_server import MAX_METRICS_CLIENTS, MetricsServer
from tests.support.processes import wait_until


def _answer(_environment: object, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Length", "5")])
    return [b"12345"]


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    server = MetricsServer(Address("127.0.0.1", 0), _answer)
    server.start()
    yield server
    server.shutdown()
    server.server_close()


def _connect(server: MetricsServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), 10)


def _scrape(server: MetricsServer) -> bytes:
    with _connect(server) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return client.makefile("rb").read()


def test_clients_above_the_limit_are_closed_at_once(server: MetricsServer) -> None:
    with ExitStack() as stack:
        for _ in range(MAX_METRICS_CLIENTS):
            stack.enter_context(_connect(server))
        wait_until(lambda: len(server.clients) == MAX_METRICS_CLIENTS)

        assert stack.enter_context(_connect(server)).recv(1) == b""

    wait_until(lambda: not server.clients)
    assert _scrape(server).endswith(b"12345")


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\nHost:"])
def test_a_client_that_is_too_slow_is_cut_off(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(metrics_server, "METRICS_CLIENT_SECONDS", 0.0)
    with _connect(server) as client:
        client.sendall(sent)

        assert client.makefile("rb").read() == b""

    wait_until(lambda: not server.clients)


def test_a_client_for_whom_there_is_no_thread_leaves_its_place_to_others(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refuse)
        with _connect(server) as client:
            assert client.makefile("rb").read() == b""

    assert server.clients == {}
    assert _scrape(server).endswith(b"12345")


def test_a_client_that_goes_away_is_not_logged(
    server: MetricsServer, capfd: pytest.CaptureFixture[str]
) -> None:
    client = _connect(server)
    client.sendall(b"GET /me")
    wait_until(lambda: server.clients)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()

    wait_until(lambda: not server.clients)
    assert capfd.readouterr() == ("", "")


def test_a_client_that_the_system_does_not_let_in_costs_no_time(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptor is left for it. It waits in the socket, which wakes the thread at once."""
    refused, pauses = 0, list[float]()
    accept = server.socket.accept

    def accept_after_a_pause() -> Any:
        nonlocal refused
        if not pauses and refused < 100:
            refused += 1
            raise OSError(errno.EMFILE, "Too many open files")
        return accept()

    monkeypatch.setattr(server, "socket", SimpleNamespace(accept=accept_after_a_pause))
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=pauses.append)
    monkeypatch.setattr(metrics_server, "time", clock)
    with socket.create_connection(("127.0.0.1", server.server_port), 10) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert client.makefile("rb").read().endswith(b"12345")

    assert (refused, pauses) == (1, [metrics_server.LOOK_SECONDS])
