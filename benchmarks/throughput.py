"""Requests per second of publish, receive and remove, at 1 and 64 connections.

    python benchmarks/throughput.py ROOT [ROOT ...]

Starts `mq` on a fresh folder below each ROOT (make it on tmpfs, or on a loop-mounted ext4 or xfs),
sends requests from this process over keep-alive connections, one at a time on each, and prints the
median of the rounds, in turn over the roots. The generator shares the machine with the server.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import click
import uvloop

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_MESSAGE_ID = re.compile(rb"x-message-id: (\S+)", re.IGNORECASE)
LISTENING = re.compile(r"listening url=http://127\.0\.0\.1:(\d+)")


class Client(asyncio.Protocol):
    """One connection: sends the next request as soon as the last one is answered."""

    def __init__(self, requests: Iterator[bytes], status: bytes, ids: list[bytes]) -> None:
        self._requests = requests
        self._status = status
        self._ids = ids
        self._buffer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not separator or len(body) < (int(length[1]) if length else 0):
            return
        if head[9:12] != self._status:
            self.done.set_exception(RuntimeError(self._buffer.decode()))
            self._transport.close()
            return
        message_id = _MESSAGE_ID.search(head)
        if message_id:
            self._ids.append(message_id[1])
        self._buffer = b""
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed the connection"))

    def _send(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self.done.set_result(None)
            self._transport.close()
        else:
            self._transport.write(request)


async def run_phase(
    port: int, requests: list[bytes], status: bytes, connections: int
) -> tuple[float, list[bytes]]:
    """Send all requests; returns requests per second and the message ids of the answers."""
    loop = asyncio.get_running_loop()
    ids: list[bytes] = []
    source = iter(requests)
    started = time.perf_counter()
    clients = [
        (await loop.create_connection(lambda: Client(source, status, ids), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    await asyncio.gather(*(client.done for client in clients))
    return len(requests) / (time.perf_counter() - started), ids


def request(method: str, path: str, body: bytes = b"") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body or method == "POST" else ""
    return f"{method} {path} HTTP/1.1\r\nHost: mq\r\n{length}\r\n".encode() + body


async def measure(port: int, messages: int, connections: int, size: int) -> dict[str, float]:
    """One round over one queue: publish all, receive all, remove all."""
    await run_phase(port, [request("PUT", "/bench")], b"201", 1)
    publish = [request("POST", "/bench/messages", b"x" * size)] * messages
    rates = {}
    rates["publish"], _ = await run_phase(port, publish, b"201", connections)
    receive = [request("GET", "/bench/messages")] * messages
    rates["receive"], ids = await run_phase(port, receive, b"200", connections)
    assert len(set(ids)) == messages, "a message was received twice"
    remove = [request("DELETE", f"/bench/messages/{message_id.decode()}") for message_id in ids]
    rates["remove"], _ = await run_phase(port, remove, b"202", connections)
    await run_phase(port, [request("DELETE", "/bench")], b"200", 1)
    return rates


def measure_once(root: Path, messages: int, connections: int, size: int) -> dict[str, float]:
    """Start a server on a fresh root, measure, stop it, remove the root."""
    folder = Path(tempfile.mkdtemp(dir=root))
    command = [sys.executable, "-m", "mq", f"--root={folder}/mq", "--port=0", "--visibility=600"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        port = next(int(m[1]) for line in server.stderr if (m := LISTENING.search(line)))
        return uvloop.run(measure(port, messages, connections, size))
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder)


@click.command()
@click.argument("roots", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--rounds", default=3, show_default=True)
@click.option("--size", default=100, show_default=True, help="Bytes of a body.")
@click.option("--connections", default="1,64", show_default=True)
@click.option("--messages", default=5000, show_default=True, help="At one connection a tenth.")
def main(roots: tuple[Path, ...], rounds: int, size: int, connections: str, messages: int) -> None:
    """Requests per second of publish, receive and remove."""
    found = defaultdict(list)
    for _ in range(rounds):
        for root in roots:
            for count in map(int, connections.split(",")):
                total = messages if count > 1 else messages // 10
                for name, rate in measure_once(root, total, count, size).items():
                    found[root, count, name].append(rate)
    for (root, count, name), rates in found.items():
        median = statistics.median(rates)
        print(f"{root!s:16} {count:3} connections {name:8} {median:8.0f}/s  "
              f"({min(rates):.0f} to {max(rates):.0f})")  # fmt: skip


if __name__ == "__main__":
    main()
