"""How the clients connect, and the blocking one to a host with several addresses."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mq.client import Client, NoAnswer
from mq.client import connection as connecting
from mq.client.connection import CONNECT_SECONDS, connection_to, parse_url
from tests.support.faces import new_queue
from tests.support.played import PlayedClock
from tests.support.processes import Server


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch, clock: PlayedClock) -> list[float]:
    """How long each address that gives no answer was waited for: all but 127.0.0.1."""
    waits: list[float] = []

    class Socket(socket.socket):
        def connect(self, address: Any) -> None:
            if address[0] == "127.0.0.1":
                return super().connect(address)
            seconds = self.gettimeout()
            assert seconds is not None
            waits.append(seconds)
            clock.now += seconds
            raise TimeoutError("timed out")

    monkeypatch.setattr(connecting, "monotonic", clock)
    monkeypatch.setattr(socket, "socket", Socket)
    return waits


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`addresses("127.0.0.2", "127.0.0.1")` are those of every host."""

    def give(*given: str) -> None:
        def find(host: object, port: int, *_: object, **__: object) -> list[Any]:
            kind = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
            return [(*kind, (each, port)) for each in given]

        monkeypatch.setattr(socket, "getaddrinfo", find)

    return give


def test_the_addresses_of_a_host_share_the_time(
    server: Server, waits: list[float], addresses: Callable[..., None]
) -> None:
    addresses("127.0.0.2", "127.0.0.3", "127.0.0.1")

    with Client(server.url, retry_seconds=0) as mq:
        assert new_queue(mq).counts().ready == 0

    # One connection served both requests.
    assert waits == pytest.approx([CONNECT_SECONDS / 3] * 2)


def test_an_address_among_many_is_given_two_seconds(
    server: Server, waits: list[float], addresses: Callable[..., None]
) -> None:
    addresses(*(f"127.0.0.{number}" for number in range(2, 22)))

    with Client(server.url, retry_seconds=0) as mq, pytest.raises(NoAnswer, match="timed out"):
        mq.queue("orders").counts()

    assert waits == pytest.approx([2.0] * 5)


def test_a_single_address_is_given_all_of_the_time(
    server: Server, waits: list[float], addresses: Callable[..., None]
) -> None:
    addresses("127.0.0.2")

    with Client(server.url, retry_seconds=0) as mq, pytest.raises(NoAnswer, match="timed out"):
        mq.queue("orders").counts()

    assert waits == [CONNECT_SECONDS]


def test_a_forward_proxy_of_the_environment_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, server: Server, connect_client: Callable[..., Client]
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    assert new_queue(connect_client(server.url)).counts().ready == 0


@pytest.mark.parametrize(("size", "pieces"), [(0, 1), (1, 1), (65_536, 1), (65_537, 2)])
def test_a_small_body_is_sent_with_its_head(size: int, pieces: int) -> None:
    sent: list[bytes] = []
    sock: Any = SimpleNamespace(sendall=sent.append)
    connection = connection_to(parse_url("http://127.0.0.1:1", None, None))
    connection.sock = sock

    connection.request("POST", "/orders/messages", b"b" * size, {"X-Meta-A": "1"})

    assert len(sent) == pieces
    whole = b"".join(sent)
    assert whole.endswith(b"\r\nX-Meta-A: 1\r\n\r\n" + b"b" * size)
    assert b"Content-Length: %d\r\n" % size in whole
    connection.send(b"more")
    assert sent[pieces:] == [b"more"]
