"""The load generator: connections that each send a request as soon as the last one is answered.

It knows no protocol. A script yields requests and is sent the answer to each; a dialect says where
an answer ends. So that what is measured is the server and not this process, a request costs it one
read, one write and little between; `PhaseSample.busy` says how much of one processor it took.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from array import array
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, Protocol, cast

LIMIT_SECONDS = 120.0
"""A phase that takes longer hangs: it ends with an error."""

Script = Generator[bytes, bytes, None]
"""Yields a request, is sent the whole answer, and so on to its end."""


class LoadDialect(Protocol):
    """How to speak to a kind of server: pure functions from bytes to bytes."""

    def read(self, buffer: bytes) -> int:
        """Length of the first whole answer in `buffer`; 0 while there is none."""

    def opening(self) -> Script:
        """What each new connection says before it works."""

    def publish(self, body: bytes) -> bytes: ...

    def receive(self) -> bytes: ...

    def remove(self, message_id: bytes) -> bytes: ...

    def check(self, answer: bytes) -> None:
        """Raise RuntimeError unless the request was done, and is on stable media."""

    def message_id(self, answer: bytes) -> bytes | None:
        """Return the id of the message that was received, or None if none was ready. Raises
        RuntimeError."""


class LoadConnection(asyncio.Protocol):
    """One connection. `latencies` has the seconds from each request to its answer."""

    def __init__(self, read: Callable[[bytes], int]) -> None:
        self._read = read
        self._buffer = b""
        self._sent = 0.0
        self._script: Script | None = None
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.latencies = array("d")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def play(self, script: Script) -> asyncio.Future[None]:
        """Start a script; the future ends with it."""
        self._script, self._done = script, asyncio.get_running_loop().create_future()
        try:
            request = next(script)
        except StopIteration:
            self._done.set_result(None)
        else:
            self._sent = time.perf_counter()
            self._transport.write(request)
        return self._done

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        if not self._read(buffer):
            self._buffer = buffer
            return
        self._buffer = b""
        now = time.perf_counter()
        self.latencies.append(now - self._sent)
        try:
            assert self._script is not None, f"an answer to no request: {buffer!r}"
            request = self._script.send(buffer)
        except StopIteration:
            self._done.set_result(None)
        except Exception as error:
            self._done.set_exception(error)
        else:
            self._sent = now
            self._transport.write(request)

    def connection_lost(self, error: Exception | None) -> None:
        if self._script is not None and not self._done.done():
            self._done.set_exception(error or ConnectionError("the server closed the connection"))

    def close(self) -> None:
        self._done.cancel()  # Nobody waits for its end any more.
        self._transport.close()


class PhaseSample(NamedTuple):
    """What one phase took: seconds, the servers' processor seconds (None if nobody can tell), how
    much of one processor this process took, and the seconds of each request."""

    seconds: float
    cpu_seconds: float | None
    busy: float
    latencies: Sequence[float]


Address = tuple[str, int] | str
"""Host and port, or the path of a unix socket."""


async def connect(
    dialect: LoadDialect,
    addresses: Sequence[Address],
    count: int,
    tls: ssl.SSLContext | None = None,
) -> list[LoadConnection]:
    """Open connections, spread evenly over the addresses. Raises OSError."""
    clients: list[LoadConnection] = []
    try:
        for number in range(count):
            clients.append(await _connect(dialect, addresses[number % len(addresses)], tls))
            await clients[-1].play(dialect.opening())
            clients[-1].latencies = array("d")
    except BaseException:
        for client in clients:
            client.close()
        raise
    return clients


async def _connect(
    dialect: LoadDialect, address: Address, tls: ssl.SSLContext | None
) -> LoadConnection:
    loop = asyncio.get_running_loop()
    if isinstance(address, str):
        _, client = await loop.create_unix_connection(lambda: LoadConnection(dialect.read), address)
    else:
        _, client = await loop.create_connection(
            lambda: LoadConnection(dialect.read), *address, ssl=tls
        )
    return client


async def play(
    clients: Sequence[LoadConnection],
    scripts: Sequence[Script],
    cpu_seconds: Callable[[], float | None],
) -> PhaseSample:
    """Let each client play its script, all at once. Raises what goes wrong in one."""
    cpu, own, started = cpu_seconds(), time.process_time(), time.perf_counter()
    parts = [client.play(script) for client, script in zip(clients, scripts, strict=True)]
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            await asyncio.gather(*parts)
    finally:
        for part in parts:
            part.cancel()
    seconds, own = time.perf_counter() - started, time.process_time() - own
    after = cpu_seconds()
    used = None if cpu is None or after is None else after - cpu
    latencies: list[float] = []
    for client in clients:
        latencies += client.latencies
        client.latencies = array("d")
    return PhaseSample(seconds, used, own / seconds, latencies)
