"""Servers that answer at once and do nothing: what HTTP alone costs on this machine.

    python benchmarks/idle.py aiohttp|bare

`aiohttp` is a handler that returns, on the same low-level server and event loop as `mq`; `bare` is
a protocol of asyncio that writes fixed bytes for whatever it reads, and parses nothing. Their
answers are as long as those of `mq` to the same request.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvloop
from aiohttp import web

_ID = "01a20140-d3af-7186-96b8-c7efd665b1c4"
_BODY = b"x" * 256
_ALWAYS = {"Cache-Control": "no-store, no-transform", "Server": "mq"}
_HEADERS = {
    "POST": {"X-Message-Id": _ID, "Location": f"/bench/messages/{_ID}"},
    "GET": {
        "X-Message-Id": _ID,
        "ETag": '"60b518e913e35947"',
        "X-Published-At": "2026-01-01T12:00:00.000000Z",
        "X-Visible-At": "2026-01-01T12:00:30.000000Z",
        "X-Receive-Count": "1",
    },
}
_STATUS = {"PUT": 201, "POST": 201, "GET": 200, "DELETE": 202}


async def answer(request: web.BaseRequest) -> web.Response:
    method = request.method
    body = _BODY if method == "GET" else b""
    headers = _ALWAYS | _HEADERS.get(method, {})
    return web.Response(status=_STATUS[method], headers=headers, body=body)


class Bare(asyncio.Protocol):
    """Takes each piece that is read for a request of the method of its first letters."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(_FIXED[data[:2]])


def fixed(method: str) -> bytes:
    body = _BODY if method == "GET" else b""
    headers = _ALWAYS | _HEADERS.get(method, {}) | {"Date": "Thu, 01 Jan 2026 12:00:00 GMT"}
    lines = [f"HTTP/1.1 {_STATUS[method]} Done", *(f"{key}: {headers[key]}" for key in headers)]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


_FIXED = {method[:2].encode(): fixed(method) for method in _STATUS}


async def serve(kind: str) -> None:
    protocol = web.Server(answer) if kind == "aiohttp" else Bare
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    print(f"listening url=http://127.0.0.1:{port}", file=sys.stderr, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
