"""Raw connections: what a test sends is what goes over the wire."""

from __future__ import annotations

import asyncio
import json
import selectors
import socket
import struct
import uuid
from datetime import datetime
from http.client import parse_headers
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import HttpRequestParser, RawRequestMessage
from aiohttp.streams import StreamReader

from tests.support.processes import Server, wait_until

SMALL_BODY_BYTES = 131_072
"""Up to here a body is handled in memory, above it by a worker: every framing is tested on both."""

PIECE_BYTES = 524_288
"""A body with more bytes than these is streamed in such pieces."""

WAIT_TEST_SECONDS = 20
"""Far less than anybody waits here: something woke the waiter, its time was not over."""

MALFORMED_NAMES = [
    "..",
    "%2e%2e",
    ".hidden",
    "-a",
    "_a",
    "a%2fb",
    "a:b",
    "a%3ab",
    "a%20b",
    "a%00",
    "%00",
    "a%0a",
    "a%",
    "a%252fb",
    "caf%c3%a9",
    "a%ff",
    "n" * 81,
    "n" * 81 + ".dead",
    "n" * 81 + ".fifo",
    "n" * 76 + ".fifo.dead",
    "n" * 86,
]


class WireAnswer(NamedTuple):
    """Header names are in lower case; a header that came twice has both values."""

    version: str
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One TCP connection to a server, kept alive over requests."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        # Otherwise a second piece stays here until the server's system has acknowledged the first.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.local_port: int = self.socket.getsockname()[1]
        # One for all answers: those that were pipelined may be in its buffer already.
        self._reader = self.socket.makefile("rb")

    def send(self, *data: bytes) -> None:
        self.socket.sendall(b"".join(data))

    def answer(self, method: str = "GET") -> WireAnswer:
        """Read the next answer, `100 Continue` too."""
        version, _, rest = self._reader.readline(65536).decode("ascii").partition(" ")
        assert rest, "the connection was closed where an answer was due"
        status = int(rest[:3])
        headers: dict[str, str] = {}
        for name, value in parse_headers(self._reader).items():
            known = headers.get(name.lower())
            headers[name.lower()] = value if known is None else f"{known}, {value}"
        has_body = method != "HEAD" and status not in (100, 204)
        assert not has_body or "content-length" in headers
        length = int(headers["content-length"]) if has_body else 0
        body = self._reader.read(length)
        assert len(body) == length
        return WireAnswer(version, status, headers, body)

    def request(
        self, method: str, target: str, body: bytes | None = None, /, **more: str
    ) -> WireAnswer:
        """Send a request and read its answer; `if_match=...` sends `If-Match: ...`."""
        self.send(request_bytes(method, target, body, **more))
        return self.answer(method)

    def is_closed(self) -> bool:
        """Wait for the next byte or the end; whether it was the end."""
        return self._reader.read(1) == b""

    def publish(self, queue: str, body: bytes = b"body", /, **headers: str) -> str:
        """Publish a message. Returns its id."""
        answer = self.request("POST", f"/{queue}/messages", body, **headers)
        assert answer.status == 201
        return answer.headers["x-message-id"]

    def receive(self, queue: str) -> WireAnswer:
        return self.request("GET", f"/{queue}/messages")

    def remove(self, queue: str, message_id: str, **headers: str) -> WireAnswer:
        return self.request("DELETE", f"/{queue}/messages/{message_id}", **headers)

    def count(self, queue: str) -> tuple[int, int]:
        """Return how many messages are ready, and how many leased."""
        info = self.request("GET", f"/{queue}").json()
        return info["ready"], info["leased"]

    def stock(self, queue: str) -> Wire:
        """See to it that a message is ready; not one more each time, which would fill the queue."""
        if self.count(queue)[0] == 0:
            self.publish(queue)
        return self

    def close(self) -> None:
        self._reader.close()
        self.socket.close()

    def reset(self) -> None:
        """Close with RST in place of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


def request_bytes(method: str, target: str, body: bytes | None = None, /, **more: str) -> bytes:
    """Return a request as bytes; `if_match=...` becomes `If-Match: ...`."""
    lines = [f"{method} {target} HTTP/1.1", "Host: mq"]
    lines += [f"{name.replace('_', '-').title()}: {value}" for name, value in more.items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def parse_request(*pieces: bytes) -> tuple[RawRequestMessage, StreamReader]:
    """Return what aiohttp's parser makes of a request that comes in these pieces."""
    loop = asyncio.new_event_loop()
    try:
        parser = HttpRequestParser(BaseProtocol(loop), loop, 2**16)
        messages = [each for piece in pieces for each in parser.feed_data(piece)[0]]
    finally:
        loop.close()
    return messages[-1]


def chunked(body: bytes, size: int, end: bytes = b"0\r\n\r\n") -> bytes:
    """Return `body` in chunks of `size` bytes."""
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + end


def assert_problem(answer: WireAnswer, status: int, slug: str, detail: str = "") -> None:
    """Assert that the answer is that problem (RFC 9457), and that its text has `detail` in it."""
    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"] == f"urn:mq:problem:{slug}"
    assert problem["status"] == status
    assert problem["title"]
    assert detail in problem["detail"]
    assert answer.headers["cache-control"] == "no-store, no-transform"


def take(wire: Wire, queue: str, message_id: str, more: str = "", /, **headers: str) -> WireAnswer:
    return wire.request("GET", f"/{queue}/messages?id={message_id}{more}", **headers)


def let_lease_end(wire: Wire, queue: str, message_id: str) -> None:
    """Receive the message that is there or comes, and let its lease end soon. One that is over
    before its answer can be given would be a receive too, so it is made short later."""
    etag = wire.request("GET", f"/{queue}/messages?wait=20&visibility=600").headers["etag"]
    assert take(wire, queue, message_id, "&visibility=0.1", if_match=etag).status == 200


def begin_to_wait(server: Server, wire: Wire, queue: str, more: str = "") -> None:
    wire.socket.settimeout(WAIT_TEST_SECONDS)
    wire.send(request_bytes("GET", f"/{queue}/messages?wait=60{more}"))
    wait_until_read(server, wire)


def files_of(server: Server, queue: str) -> list[str]:
    """Return where files of the queue lie, relative to the root, and every file in `new`."""
    root = server.root
    found = {*root.glob(f"queues/{queue}/*"), *root.glob(f"*/{queue}:*"), *root.glob("new/*")}
    return sorted(str(path.relative_to(root)) for path in found)


class SocketState(NamedTuple):
    """The server's end of a connection, as Linux lists it."""

    is_open: bool
    unread_bytes: int


def server_end(server: Server, client_port: int) -> SocketState:
    """Return the server's end of a connection. See proc_net_tcp: local address, remote address,
    state, tx_queue:rx_queue, in hex."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, queues = line.split()[:5]
        if local.endswith(f":{server.port:04X}") and remote.endswith(f":{client_port:04X}"):
            is_open = state in _OPEN_STATES
            return SocketState(is_open, int(queues.partition(":")[2], 16))
    return SocketState(False, 0)


_OPEN_STATES = ("01", "08")
"""ESTABLISHED; CLOSE_WAIT: the client has closed, the server not yet."""


def wait_until_read(server: Server, wire: Wire) -> None:
    """Wait until the server has read all that was sent."""
    wait_until(lambda: server_end(server, wire.local_port) == (True, 0))


def wait_until_closed(server: Server, client_port: int) -> None:
    """Wait until the server has closed its end."""
    wait_until(lambda: not server_end(server, client_port).is_open)


def has_answer(wire: Wire) -> bool:
    """Return whether there is something to read, or the end."""
    return bool(_readable(0, wire))


def wait_without_answer(seconds: float, *wires: Wire) -> None:
    """Let so much time pass; fails if the server says something meanwhile on any of the wires."""
    assert _readable(seconds, *wires) == []


def _readable(seconds: float, *wires: Wire) -> list[int]:
    """Return which of the wires have something to read once any of them has."""
    with selectors.PollSelector() as poll:
        for at, wire in enumerate(wires):
            poll.register(wire.socket, selectors.EVENT_READ, at)
        return [key.data for key, _ in poll.select(seconds)]


def make_queue(wire: Wire) -> str:
    """Make a queue with a name of its own."""
    name = f"q-{uuid.uuid4().hex[:8]}"
    assert wire.request("PUT", f"/{name}").status == 201
    return name


def hidden_seconds(answer: WireAnswer) -> float:
    """Return for how long a message that was just published is hidden."""
    visible, published = (
        datetime.fromisoformat(answer.headers[each]) for each in ("x-visible-at", "x-published-at")
    )
    return round((visible - published).total_seconds(), -1)
