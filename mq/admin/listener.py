"""The connections of the admin listener: one more health check always finds room."""

from __future__ import annotations

from mq.web.connections.connection import Connection
from mq.web.connections.http_server import HttpServer


class AdminServer(HttpServer):
    """Takes a new connection in place of the oldest one that has no request under way.

    Health checks come over new connections. If connections that ask for nothing could keep them
    out, an orchestrator would restart a server that works.
    """

    def make_room(self) -> bool:
        for connection in self.connections:
            assert isinstance(connection, Connection)
            transport = connection.own_transport
            if connection not in self.busy and transport and not transport.is_closing():
                # Not `close`: that waits for a client which does not read its last answer.
                transport.abort()
                return True
        return False
