"""Connections over http.client, kept for the next request."""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import NamedTuple

from mq import __version__
from mq.client.errors import ClientClosed, NoAnswer
from mq.client.problems import untrusted
from mq.client.token import Token
from mq.client.wire import Answer, Request
from mq.config import (
    CLIENT_CONNECT_SECONDS,
    CLIENT_IDLE_SECONDS,
    CLIENT_SLOWEST_BYTES_PER_SECOND,
)
from mq.connection import Address, connection_to

_USER_AGENT = f"mq-client/{__version__}"


class _Idle(NamedTuple):
    connection: HTTPConnection
    since: float


class Connections:
    """To one server, for any number of threads: each request has a connection for itself.

    A forked process begins with none.
    """

    def __init__(self, address: Address, token: Token) -> None:
        self._address = address
        self._token = token
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        # A signal handler may close while its own thread is in here.
        self._lock = threading.RLock()
        self._idle: list[_Idle] = []
        self._busy: set[HTTPConnection] = set()
        self._is_closed = False

    def exchange(self, request: Request) -> Answer:
        """Send a request and read its answer. Raises NoAnswer, UnexpectedAnswer, ClientClosed."""
        connection = self._take()
        try:
            answer = self._exchange(connection, request)
        except ssl.SSLCertVerificationError as error:
            raise untrusted(self._address, error) from error
        except (OSError, HTTPException) as error:
            raise NoAnswer(f"{self._address.url} does not answer: {_why(error)}") from error
        finally:
            self._give_back(connection)
        return answer

    def close(self) -> None:
        """Cut requests off that are under way, and take no more."""
        with self._lock:
            self._is_closed = True
            for idle in self._idle:
                idle.connection.close()
            self._idle.clear()
            for connection in self._busy:
                sock = connection.sock
                if sock is not None:
                    # Its thread wakes up and closes it.
                    with suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)

    def _take(self) -> HTTPConnection:
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            if self._is_closed:
                raise ClientClosed("the client is closed; make another one")
            connection = self._usable() or connection_to(self._address)
            self._busy.add(connection)
            return connection

    def _usable(self) -> HTTPConnection | None:
        """The one that was used last, if its server has not closed it."""
        while self._idle:
            connection, since = self._idle.pop()
            is_young = time.monotonic() - since < CLIENT_IDLE_SECONDS
            if is_young and connection.sock is not None and not _has_news(connection.sock):
                return connection
            connection.close()
        return None

    def _give_back(self, connection: HTTPConnection) -> None:
        with self._lock:
            self._busy.discard(connection)
            if connection.sock is None or self._is_closed:
                connection.close()
            else:
                self._idle.append(_Idle(connection, time.monotonic()))

    def _exchange(self, connection: HTTPConnection, request: Request) -> Answer:
        try:
            return self._ask(connection, request)
        except BaseException:
            # What is left of the answer must not be taken for the next one.
            connection.close()
            raise

    def _ask(self, connection: HTTPConnection, request: Request) -> Answer:
        if connection.sock is None:
            connection.timeout = min(CLIENT_CONNECT_SECONDS, request.patience_seconds)
            connection.connect()
            with self._lock:
                if self._is_closed:
                    raise ConnectionAbortedError("the client is closed")
        headers = {"User-Agent": _USER_AGENT, **self._token.headers, **request.headers}
        upload_seconds = len(request.body) / CLIENT_SLOWEST_BYTES_PER_SECOND
        connection.sock.settimeout(request.patience_seconds + upload_seconds)
        target = self._address.prefix + request.target
        try:
            connection.request(request.method, target, request.body or None, headers)
        except (BrokenPipeError, ConnectionResetError):
            # Perhaps it has answered before the end of the body, and closed.
            pass
        connection.sock.settimeout(request.patience_seconds)
        response = connection.getresponse()
        came_at = time.monotonic()
        return self._read(connection, request, response, came_at)

    def _read(
        self, connection: HTTPConnection, request: Request, response: HTTPResponse, came_at: float
    ) -> Answer:
        body = b""
        if request.wants_all_of(response.status, response.length):
            body = response.read()
        else:
            connection.close()
        found = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, response.reason, found, body, came_at)


def _has_news(sock: socket.socket) -> bool:
    """Nothing is expected on an idle connection but its end."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
