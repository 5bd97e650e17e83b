"""Connections over aiohttp, which keeps them for the next request."""

from __future__ import annotations

import asyncio
import io
import time
from types import SimpleNamespace

import aiohttp
from yarl import URL

from mq.client.aio.connectors import Connector, connector_to
from mq.client.connection import (
    CONNECT_SECONDS,
    SLOWEST_BYTES_PER_SECOND,
    ServerAddress,
    has_closed_unheard,
)
from mq.client.errors import ClientClosed
from mq.client.forking import start_anew_in_children
from mq.client.problems import cut_off, no_answer, not_connected, not_http, require_end
from mq.client.wire import USER_AGENT, Request, ServerAnswer
from mq.config import MAX_HEAD_BYTES, SMALL_BODY_BYTES, Address


class AsyncConnections:
    """The connections to one server, for any number of tasks. Each request has a connection for
    itself.

    A forked process begins without connections.
    """

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._inherited: list[object] = []
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connector: Connector | None = None
        self._is_closed = False
        scheme = "http" if address.tls is None else "https"
        self._origin = f"{scheme}://{Address(address.host, address.port)}{address.prefix}"
        start_anew_in_children(self)

    def start(self) -> None:
        """Begin in a forked process. What the parent has open stays as it is: closing it here would
        affect the parent's event loop."""
        if self._session is not None:
            self._inherited += [self._session, self._connector]
            self._session.detach()
        self._session = self._connector = None

    async def exchange(self, request: Request) -> ServerAnswer:
        """Send a request and read its answer. Raises NoAnswer, UnexpectedAnswer, ClientClosed."""
        upload_seconds = len(request.body) / SLOWEST_BYTES_PER_SECOND
        patience = request.patience_seconds
        connecting = 0.0 if request.body else min(CONNECT_SECONDS, patience)
        is_kept = asyncio.Event()
        try:
            # aiohttp watches neither how long a body takes to send, nor how many interim answers
            # come.
            async with asyncio.timeout(connecting + patience + upload_seconds) as end:
                return await self._exchange(request, is_kept, end)
        except aiohttp.ClientConnectorCertificateError as error:
            raise not_connected(self._address, error.certificate_error) from error
        except aiohttp.ClientConnectorError as error:
            raise not_connected(self._address, error.os_error) from error
        except aiohttp.ConnectionTimeoutError as error:
            raise not_connected(self._address, error) from error
        except aiohttp.ClientResponseError as error:
            raise not_http(self._address, error) from error
        except (OSError, aiohttp.ClientError) as error:
            has_parted = is_kept.is_set() and _has_closed_unheard(error)
            raise no_answer(self._address, error, has_parted=has_parted) from error

    def hang_up(self) -> None:
        """Take no more requests, and let those under way get what was answered.

        A server that reads the end of the client's direction takes the client for gone: it writes
        no more messages, and gives to others what it has not written. What it wrote before is read
        here. If an address cannot do that, the requests just run to their end.
        """
        self._is_closed = True
        if self._connector is not None and self._address.can_hang_up:
            self._connector.hang_up()

    async def close(self) -> None:
        """Cut requests off that are under way, and take no more."""
        self._is_closed = True
        if self._session is not None:
            await self._session.close()

    async def _exchange(
        self, request: Request, is_kept: asyncio.Event, end: asyncio.Timeout
    ) -> ServerAnswer:
        """Exchange, and set `is_kept` if that is over a connection of an earlier request."""
        session = self._open()
        patience = request.patience_seconds
        async with session.request(
            request.method,
            URL(self._origin + request.target, encoded=True),
            # A plain body would be copied into the connection's buffer at once.
            data=io.BytesIO(request.body) if len(request.body) > SMALL_BODY_BYTES else request.body,
            headers=request.headers,
            allow_redirects=False,
            trace_request_ctx=is_kept,
            timeout=aiohttp.ClientTimeout(
                total=None,
                sock_connect=min(CONNECT_SECONDS, patience),
                sock_read=patience,
            ),
        ) as response:
            if not request.body:
                end.reschedule(None)
            headers = {name.lower(): value for name, value in response.headers.items()}
            head = ServerAnswer(
                response.status, response.reason or "", headers, b"", time.monotonic()
            )
            if head.status in request.done:
                require_end(head)
            if request.wants_all_of(response.status, response.content_length):
                try:
                    return head._replace(body=await response.read())
                except (OSError, aiohttp.ClientError) as error:
                    raise cut_off(self._address, error) from error
            response.close()
            return head

    def _open(self) -> aiohttp.ClientSession:
        """Make the session of aiohttp, within the event loop that uses it. Raises RuntimeError in
        any other one."""
        if self._is_closed:
            raise ClientClosed
        loop = asyncio.get_running_loop()
        if self._session is not None and self._loop is not loop:
            raise RuntimeError(
                "a client serves one event loop, and this one has begun in another; make an "
                "AsyncClient in each"
            )
        if self._session is None:
            self._loop = loop
            self._connector = connector_to(self._address)
            self._session = aiohttp.ClientSession(
                connector=self._connector,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                # aiohttp would accept gzip, which a proxy may then make of a body.
                headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
                skip_auto_headers=["Content-Type"],
                max_field_size=MAX_HEAD_BYTES,
                trace_configs=[_noting_kept()],
            )
            # aiohttp would send a request again by itself, and say nothing. A removal whose answer
            # was lost would then look like one of a message that was gone before.
            self._session._retry_connection = False
        return self._session


def _noting_kept() -> aiohttp.TraceConfig:
    """Return what sets the event of each request that has a connection of an earlier one."""

    async def note(session: object, context: SimpleNamespace, parameters: object) -> None:
        context.trace_request_ctx.set()

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(note)
    return config


def _has_closed_unheard(error: Exception) -> bool:
    if isinstance(error, aiohttp.ServerDisconnectedError):
        # Otherwise it is the head that came.
        return isinstance(error.message, str)
    return isinstance(error, aiohttp.ClientConnectionResetError) or has_closed_unheard(error)
