"""Connections over aiohttp, which keeps them for the next request."""

from __future__ import annotations

import asyncio
import io
import time

import aiohttp
from yarl import URL

from mq import __version__
from mq.client.errors import ClientClosed, NoAnswer
from mq.client.problems import untrusted
from mq.client.token import Token
from mq.client.wire import Answer, Request
from mq.config import (
    CLIENT_CONNECT_SECONDS,
    CLIENT_IDLE_SECONDS,
    CLIENT_SLOWEST_BYTES_PER_SECOND,
    SMALL_BODY_BYTES,
)
from mq.connection import Address

_USER_AGENT = f"mq-client/{__version__}"


class AsyncConnections:
    """To one server, for any number of tasks: each request has a connection for itself."""

    def __init__(self, address: Address, token: Token) -> None:
        self._address = address
        self._token = token
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False
        scheme = "http" if address.tls is None else "https"
        host = f"[{address.host}]" if ":" in address.host else address.host
        self._origin = f"{scheme}://{host}:{address.port}{address.prefix}"

    async def exchange(self, request: Request) -> Answer:
        """Send a request and read its answer. Raises NoAnswer, UnexpectedAnswer, ClientClosed."""
        upload_seconds = len(request.body) / CLIENT_SLOWEST_BYTES_PER_SECOND
        within = request.patience_seconds + upload_seconds if request.body else None
        try:
            # aiohttp does not watch how long a body takes to send.
            async with asyncio.timeout(within):
                return await self._exchange(request)
        except aiohttp.ClientConnectorCertificateError as error:
            raise untrusted(self._address, error.certificate_error) from error
        except (OSError, aiohttp.ClientError) as error:
            raise NoAnswer(f"{self._address.url} does not answer: {_why(error)}") from error

    async def close(self) -> None:
        self._is_closed = True
        if self._session is not None:
            await self._session.close()

    async def _exchange(self, request: Request) -> Answer:
        session = self._open()
        patience = request.patience_seconds
        async with session.request(
            request.method,
            URL(self._origin + request.target, encoded=True),
            # A body as it is would be copied into the connection's buffer at once.
            data=io.BytesIO(request.body) if len(request.body) > SMALL_BODY_BYTES else request.body,
            headers={**self._token.headers, **request.headers},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(
                total=None,
                sock_connect=min(CLIENT_CONNECT_SECONDS, patience),
                sock_read=patience,
            ),
        ) as response:
            came_at = time.monotonic()
            body = b""
            if request.wants_all_of(response.status, response.content_length):
                body = await response.read()
            else:
                response.close()
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, response.reason or "", headers, body, came_at)

    def _open(self) -> aiohttp.ClientSession:
        """Made within the event loop that it is used in."""
        if self._is_closed:
            raise ClientClosed("the client is closed; make another one")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_connector(self._address),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": _USER_AGENT},
            )
        return self._session


def _connector(address: Address) -> aiohttp.BaseConnector:
    """Without a limit: those who wait for messages must not keep those who renew from it."""
    if address.socket_path is not None:
        return aiohttp.UnixConnector(
            address.socket_path, limit=0, keepalive_timeout=CLIENT_IDLE_SECONDS
        )
    return aiohttp.TCPConnector(
        ssl=address.tls or True, limit=0, keepalive_timeout=CLIENT_IDLE_SECONDS
    )


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
