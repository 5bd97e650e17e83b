"""A server in this event loop, and which of its requests went the quick way."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from http.client import parse_headers
from io import BytesIO
from pathlib import Path
from typing import Any

from mq.daemon.token_file import TokenFile
from mq.store.store import Store
from mq.web.connections.connection import Limits
from mq.web.connections.http_server import HttpServer
from mq.web.durations import Durations
from mq.web.origin_policy import OriginPolicy
from mq.web.quick.way import QuickWay, make_http
from tests.support.certificates import make_certificate
from tests.support.faults import WatchedFiles
from tests.support.stores import store_on
from tests.support.token_files import make_token_file
from tests.support.wire import WireAnswer, request_bytes

TOKEN = "Hj0vVt9xkq3mP2sYw8LrBg"
BOTH = ("plain", "unix", "tls", "token")


class Way:
    """Which requests went the quick way: their methods, in lower case if they did not; and how many
    were not parsed, because their heads were known."""

    def __init__(self, quick: QuickWay) -> None:
        self._quick = quick
        self.taken: list[str] = []
        self.known = 0

    def take(self, connection: Any, message: Any, payload: Any) -> bool:
        is_taken = self._quick.take(connection, message, payload)
        self.taken.append(message.method if is_taken else message.method.lower())
        return is_taken

    def take_known(self, connection: Any, data: bytes) -> bool:
        is_taken = self._quick.take_known(connection, data)
        if is_taken:
            self.taken.append(data.partition(b" ")[0].decode())
            self.known += 1
        return is_taken

    def refuses(self, message: Any) -> bool:
        return self._quick.refuses(message)

    def drop(self, received: Any) -> None:
        self._quick.drop(received)
        self.taken.append("drop")


class Site:
    """A server in this event loop, and how to reach it."""

    def __init__(self, store: Store, http: HttpServer, way: Way, connect: Connect) -> None:
        self.store = store
        self.http = http
        self.way = way
        self.connect = connect
        self.headers: dict[str, str] = {}

    async def ask(
        self, method: str, target: str, body: bytes | None = None, /, **more: str
    ) -> WireAnswer:
        """Send one request on a connection of its own."""
        reader, writer = await self.connect()
        writer.write(request_bytes(method, target, body, **self.headers, **more))
        answer = await parse_answer(reader, method)
        await close(writer)
        return answer


Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


@asynccontextmanager
async def site_on(
    root: Path, kind: str = "plain", files: WatchedFiles | None = None, **settings: Any
) -> AsyncIterator[Site]:
    folder = root.parent
    tokens = None
    if kind == "token":
        path = make_token_file(folder, f"till write,admin,read orders {TOKEN}")
        tokens = TokenFile(path).tokens
    async with store_on(root, files, **settings) as store:
        http = make_http(store, Limits(), tokens, Durations(), OriginPolicy(("mq",)))
        assert isinstance(http.quick_handler, QuickWay)
        http.quick_handler = way = Way(http.quick_handler)
        async with _listening(folder, kind, http) as connect:
            site = Site(store, http, way, connect)
            if tokens is not None:
                site.headers["Authorization"] = f"Bearer {TOKEN}"
            yield site
        await http.shutdown(1)


@asynccontextmanager
async def _listening(folder: Path, kind: str, http: HttpServer) -> AsyncIterator[Connect]:
    loop = asyncio.get_running_loop()
    if kind == "unix":
        path = str(folder / "socket")
        async with await loop.create_unix_server(http, path):
            yield lambda: asyncio.open_unix_connection(path)
        return
    server_tls = client_tls = None
    if kind == "tls":
        pair = make_certificate(folder, "localhost")
        server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server_tls.load_cert_chain(pair.cert, pair.key)
        client_tls = ssl.create_default_context(cafile=pair.cert)
    async with await loop.create_server(http, "127.0.0.1", 0, ssl=server_tls) as server:
        port = server.sockets[0].getsockname()[1]
        yield lambda: asyncio.open_connection("localhost", port, ssl=client_tls)


async def parse_answer(reader: asyncio.StreamReader, method: str) -> WireAnswer:
    """Read the next answer on a connection of this event loop."""
    head = await reader.readuntil(b"\r\n\r\n")
    version, _, rest = head.split(b"\r\n", 1)[0].decode("ascii").partition(" ")
    headers = {
        name.lower(): value
        for name, value in parse_headers(BytesIO(head.split(b"\r\n", 1)[1])).items()
    }
    status = int(rest[:3])
    has_body = method != "HEAD" and status not in (100, 204)
    body = await reader.readexactly(int(headers["content-length"])) if has_body else b""
    return WireAnswer(version, status, headers, body)
