"""Clients that read their answers slowly, over plain HTTP and over TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from aiohttp import web

from mq.daemon.tls import Certificate
from mq.web.answers import Answer
from mq.web.connections.connection import Limits
from mq.web.connections.http_server import HttpServer
from tests.support.certificates import make_certificate
from tests.support.wire import request_bytes


class SlowlyRead:
    """A server whose answers have 60,000 bytes in buffers of `room_bytes`, and a client that has
    read the first of them. `tls_end_seconds` is what the event loop gives it at the end of TLS."""

    def __init__(
        self, folder: Path, room_bytes: int, *, is_tls: bool, tls_end_seconds: float = 10.0
    ) -> None:
        self._end_seconds = tls_end_seconds if is_tls else None
        self._room_bytes = room_bytes
        self._pair = make_certificate(folder, "localhost")
        self._is_tls = is_tls

    def run(self, use: Callable[[HttpServer, socket.socket], Awaitable[None]], **more: str) -> None:
        """Call `use` once the server has written its answer, to a request with `more` headers."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._play(use, request_bytes("GET", "/", **more)))

    async def _play(
        self, use: Callable[[HttpServer, socket.socket], Awaitable[None]], request: bytes
    ) -> None:
        http = HttpServer(self._handle, Limits(body_timeout_seconds=0.5))
        context = Certificate(*self._pair).current() if self._is_tls else None
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(
            http, "127.0.0.1", 0, ssl=context, ssl_shutdown_timeout=self._end_seconds
        )
        port = listening.sockets[0].getsockname()[1]
        client = await asyncio.to_thread(self._ask, port, request)
        while http.busy:
            await asyncio.sleep(0)

        listening.close()
        with client:
            await use(http, client)
        await http.shutdown(1)

    async def _handle(self, request: web.BaseRequest) -> Answer:
        assert request.transport is not None
        sending = request.transport.get_extra_info("socket")
        sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._room_bytes)
        return Answer(200, "", bytes(60_000))

    def _ask(self, port: int, request: bytes) -> socket.socket:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(20)
        client.connect(("127.0.0.1", port))
        if self._is_tls:
            trusting = ssl.create_default_context(cafile=str(self._pair.cert))
            client = trusting.wrap_socket(client, server_hostname="localhost")
        client.sendall(request)
        assert client.recv(1) == b"H"
        return client


def read_whole(client: socket.socket) -> None:
    with client.makefile("rb") as reader:
        assert reader.read().endswith(b"\r\n\r\n" + bytes(60_000))
