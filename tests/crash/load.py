"""Load on a server, and a log of what it answered: what a crash test is measured by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from tests.support.processes import Server


class LoadAnswer(NamedTuple):
    """Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def message_id(self) -> str:
        return self.headers["x-message-id"]


class ServerGone(Exception):
    """The connection ended before the answer: the outcome is unknown."""


class LoadClient:
    """One connection, kept alive over requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def request(
        self, method: str, target: str, body: bytes = b"", **headers: str
    ) -> LoadAnswer:
        """Send a request and read its answer. Raises ServerGone."""
        lines = [f"{method} {target} HTTP/1.1", "Host: mq", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        try:
            await self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            return await self._answer()
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            raise ServerGone from error

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def _answer(self) -> LoadAnswer:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status_line, *lines = head[:-4].split("\r\n")
        headers = {name.lower(): value for name, _, value in (n.partition(": ") for n in lines)}
        body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        return LoadAnswer(int(status_line.split()[1]), headers, body)

    async def publish(self, body: bytes, queue: str = "orders") -> LoadAnswer:
        return await self.request("POST", f"/{queue}/messages", body)

    async def receive(self, queue: str = "orders") -> LoadAnswer:
        return await self.request("GET", f"/{queue}/messages")

    async def remove(self, message_id: str, queue: str = "orders") -> LoadAnswer:
        return await self.request("DELETE", f"/{queue}/messages/{message_id}")

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def client_of(server: Server) -> AsyncIterator[LoadClient]:
    async with client_at(server.port) as client:
        yield client


@asynccontextmanager
async def client_at(port: int) -> AsyncIterator[LoadClient]:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    except ConnectionError as error:
        raise ServerGone from error
    client = LoadClient(reader, writer)
    try:
        yield client
    finally:
        client.close()


async def put_load_on(
    server: Server, count: int, work: Callable[[LoadClient, int], Awaitable[None]]
) -> None:
    """Let `count` clients do `work` at once, each until it returns or the server is gone."""

    async def run(number: int) -> None:
        try:
            async with client_of(server) as client:
                await work(client, number)
        except ServerGone:
            pass

    await asyncio.gather(*(run(number) for number in range(count)))


async def create_queue(server: Server, queue: str = "orders") -> None:
    async with client_of(server) as client:
        assert (await client.request("PUT", f"/{queue}")).status in (200, 201)


async def drain(server: Server, queue: str = "orders") -> list[LoadAnswer]:
    """Receive until nothing comes, one at a time."""
    received = []
    async with client_of(server) as client:
        while (answer := await client.receive(queue)).status == 200:
            received.append(answer)
    assert answer.status == 204
    return received
