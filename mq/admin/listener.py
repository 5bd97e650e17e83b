"""The connections of the admin listener: one more health check always finds room."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from mq.web.connections.http_server import HttpServer


class AdminServer(HttpServer):
    """Takes a new connection in place of the oldest one that has no request under way, or of the
    oldest TLS handshake if more of these are under way.

    Health checks come over new connections. If connections that ask for nothing could keep them
    out, an orchestrator would restart a server that works. A health check shakes hands first and
    asks then: as the newest of the most it is the last that would have to go.
    """

    def make_room(self) -> bool:
        handshakes = [each for each in self.handshakes if not each.cancelling()]
        idle = [*self._idle_transports()]
        if len(handshakes) > len(idle):
            handshakes[0].cancel()
        elif idle:
            # Not `close`: that waits for a client which does not read its last answer.
            idle[0].abort()
        return bool(handshakes or idle)

    def _idle_transports(self) -> Iterator[asyncio.Transport]:
        """Yield those of connections without a request under way, the oldest first."""
        for connection in self.clients:
            transport = connection.own_transport
            if connection not in self.busy and transport and not transport.is_closing():
                yield transport
