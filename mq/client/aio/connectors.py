"""aiohttp's connectors, with what they lack: hanging up, and a fork."""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakSet

import aiohttp
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from mq.client.connection import IDLE_SECONDS, ServerAddress


class Connector(aiohttp.BaseConnector):
    """A connector that knows which connections are in use."""

    _made_in: int | None = None

    def __init__(self) -> None:
        self._made_in = os.getpid()
        self._used: WeakSet[Connection] = WeakSet()
        self._has_hung_up = False

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        if self._has_hung_up:
            connection.close()
            raise ConnectionAbortedError("the client has hung up")
        self._used.add(connection)
        return connection

    def hang_up(self) -> None:
        """Send no more, but read what still comes."""
        self._has_hung_up = True
        for connection in self._used:
            # A connection that was released has no transport.
            if connection.transport is not None:
                connection.transport.write_eof()

    def __del__(self, *given: Any) -> None:
        # In a forked process this would end the parent's waiting for its connections.
        if self._made_in == os.getpid():
            super().__del__(*given)


class _TCPConnector(Connector, aiohttp.TCPConnector):
    def __init__(self, address: ServerAddress) -> None:
        Connector.__init__(self)
        aiohttp.TCPConnector.__init__(
            self, ssl=address.tls or True, limit=0, keepalive_timeout=IDLE_SECONDS
        )


class _UnixConnector(Connector, aiohttp.UnixConnector):
    def __init__(self, path: str) -> None:
        Connector.__init__(self)
        aiohttp.UnixConnector.__init__(self, path, limit=0, keepalive_timeout=IDLE_SECONDS)


def connector_to(address: ServerAddress) -> Connector:
    """Return a connector without a limit: tasks that wait for messages must not keep those that
    renew leases from a connection."""
    if address.socket_path is not None:
        return _UnixConnector(address.socket_path)
    return _TCPConnector(address)
