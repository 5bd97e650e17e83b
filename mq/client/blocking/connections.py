"""Connections over http.client, kept for the next request."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection
from math import inf
from typing import NamedTuple
from weakref import WeakSet

from mq.client.blocking.exchange import Exchange
from mq.client.connection import (
    CONNECT_SECONDS,
    FRESH_SECONDS,
    IDLE_SECONDS,
    ServerAddress,
    connection_to,
)
from mq.client.errors import ClientClosed
from mq.client.forking import start_anew_in_children
from mq.client.problems import not_connected
from mq.client.wire import Request, ServerAnswer


class _Idle(NamedTuple):
    connection: HTTPConnection
    since: float


class Connections:
    """The connections to one server, for any number of threads. Each request has a connection for
    itself.

    A forked process begins without connections.
    """

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._is_closed = False
        self.start()
        start_anew_in_children(self)

    def start(self) -> None:
        # It is reentrant because a signal handler may close while its own thread holds it.
        self._lock = threading.RLock()
        self._idle: list[_Idle] = []
        # A signal handler may raise between any two steps. What is in use by nobody then is closed.
        self._busy: WeakSet[HTTPConnection] = WeakSet()

    def exchange(self, request: Request) -> ServerAnswer:
        """Send a request and read its answer. Raises NoAnswer, UnexpectedAnswer, ClientClosed."""
        with self.begin(request) as exchange:
            return exchange.whole()

    def begin(self, request: Request, chunks: Iterator[bytes] | None = None) -> Exchange:
        """Send a request, with `chunks` as its body if they are given. The answer is to be read and
        closed. Raises what `exchange` and `chunks` raise."""
        connection = self._take(request)
        exchange = Exchange(connection, request, self._address, self._give_back)
        try:
            self._reach(connection, request)
            exchange.send(chunks)
        except BaseException:
            exchange.close()
            raise
        return exchange

    def close(self) -> None:
        """Cut off requests that are under way, and take no more. Their threads wake up and close
        their connections."""
        self._refuse_more()
        self._shut_down(socket.SHUT_RDWR)

    def hang_up(self) -> None:
        """Take no more requests, and let those under way get what was answered.

        A server that reads the end of the client's direction takes the client for gone: it writes
        no more messages, and gives to others what it has not written. What it wrote before is read
        here. If an address cannot do that, the requests just run to their end.
        """
        self._refuse_more()
        if self._address.can_hang_up:
            self._shut_down(socket.SHUT_WR)

    def _refuse_more(self) -> None:
        with self._lock:
            self._is_closed = True
            for idle in self._idle:
                idle.connection.close()
            self._idle.clear()

    def _shut_down(self, directions: int) -> None:
        with self._lock:
            for connection in self._busy:
                sock = connection.sock
                if sock is not None:
                    with suppress(OSError):
                        sock.shutdown(directions)

    def _take(self, request: Request) -> HTTPConnection:
        with self._lock:
            if self._is_closed:
                raise ClientClosed
            self._close_old()
            connection = self._usable(request) or connection_to(self._address)
            self._busy.add(connection)
            return connection

    def _usable(self, request: Request) -> HTTPConnection | None:
        """Return the connection that was used last, if its server has not closed it."""
        fresh_since = -inf if request.is_repeatable else time.monotonic() - FRESH_SECONDS
        while self._idle:
            connection, since = self._idle.pop()
            is_open = connection.sock is not None and not _has_news(connection.sock)
            if is_open and since > fresh_since:
                return connection
            connection.close()
        return None

    def _close_old(self) -> None:
        """Close connections that their server would close soon. The oldest come first."""
        while self._idle and time.monotonic() - self._idle[0].since >= IDLE_SECONDS:
            self._idle.pop(0).connection.close()

    def _give_back(self, connection: HTTPConnection) -> None:
        with self._lock:
            if connection.sock is None or self._is_closed or connection not in self._busy:
                connection.close()
            else:
                self._idle.append(_Idle(connection, time.monotonic()))
            self._busy.discard(connection)

    def _reach(self, connection: HTTPConnection, request: Request) -> None:
        """Connect, unless it is connected."""
        if connection.sock is not None:
            return
        connection.timeout = min(CONNECT_SECONDS, request.patience_seconds)
        try:
            connection.connect()
        except OSError as error:
            raise not_connected(self._address, error) from error
        with self._lock:
            if self._is_closed:
                raise ClientClosed


def _has_news(sock: socket.socket) -> bool:
    """Return whether bytes, or the end, have come. On an idle connection only the end can come."""
    if not hasattr(select, "poll"):
        # eventlet takes poll(2) away: it has a select(2) of its own, for any descriptor.
        return bool(select.select([sock], [], [], 0)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
