"""TLS handshakes that are under way. Each counts as a connection."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

import structlog

from mq.web.connections.http_server import HttpServer
from mq.web.connections.lingering import LINGER_SECONDS

TLS_HANDSHAKE_SECONDS = 10.0
"""How long a client has for its TLS handshake."""

log = structlog.get_logger(__name__)

_ACCEPT_PAUSE_SECONDS = 0.5
"""The pause after a connection could not be accepted."""


class SecureServer:
    """Accepts connections from a listening socket, and hands those that speak TLS to `http`.

    The event loop's own server would report a client only when its handshake is over. `tls` is
    asked at the beginning of each, because the certificate may be another one by then.
    """

    def __init__(
        self, bound: socket.socket, http: HttpServer, tls: Callable[[], ssl.SSLContext]
    ) -> None:
        self._socket = bound
        self._http = http
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._accepting = self._loop.create_task(self._accept_forever())

    def close(self) -> None:
        """Accept no more connections, and drop those of `http` that have not finished the
        handshake."""
        self._accepting.cancel()
        for handshake in self._http.handshakes:
            handshake.cancel()
        # The event loop must have let go of the socket first.
        self._accepting.add_done_callback(lambda _: self._socket.close())

    async def _accept_forever(self) -> None:
        is_accepting = True
        while True:
            try:
                client, _ = await self._loop.sock_accept(self._socket)
            except OSError as error:
                if is_accepting:
                    log.warning("no connection accepted", error=str(error))
                is_accepting = False
                await asyncio.sleep(_ACCEPT_PAUSE_SECONDS)
                continue
            is_accepting = True
            if not self._http.admit():
                client.close()
                continue
            handshake = self._loop.create_task(self._shake_hands(client))
            self._http.handshakes[handshake] = None
            handshake.add_done_callback(self._http.handshakes.pop)

    async def _shake_hands(self, client: socket.socket) -> None:
        connection = self._http.admitted()
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection, client, ssl=self._tls(),
                ssl_handshake_timeout=TLS_HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=LINGER_SECONDS,
            )  # fmt: skip
        except OSError:
            # The client speaks something else, or is gone.
            self._http.leave()
        except asyncio.CancelledError:
            if connection.own_transport is None:
                self._http.leave()
            raise
