"""A raw connection: what a test sends is what goes over the wire."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from typing import NamedTuple

import pytest

from tests.conftest import Server


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Wire:
    """One TCP connection to a server, kept alive over requests."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self, method: str = "GET") -> Answer:
        """Read the next answer. Header names are in lower case."""
        response = HTTPResponse(self.socket, method=method)
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read())

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """Send a request and read its answer; `if_match=...` sends `If-Match: ...`."""
        lines = [f"{method} {path} HTTP/1.1", "Host: mq"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))
        return self.answer(method)

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def connect() -> Iterator[Callable[[Server], Wire]]:
    """`connect(server)` opens a connection; it is closed when the test ends."""
    wires: list[Wire] = []

    def open_wire(server: Server) -> Wire:
        wires.append(Wire(server.port))
        return wires[-1]

    yield open_wire
    for wire in wires:
        wire.close()


@pytest.fixture
def wire(server: Server, connect: Callable[[Server], Wire]) -> Wire:
    """A connection to a server of its own."""
    return connect(server)
