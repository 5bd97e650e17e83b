"""Requests per second of publish, receive and remove, at 1 and 64 connections.

    python benchmarks/throughput.py ROOT [ROOT ...]
    python benchmarks/throughput.py --servers 1,3 --connections 64 ROOT

Starts `mq` on a fresh folder below each ROOT (make it on tmpfs, or on a loop-mounted ext4 or xfs),
sends requests from this process over keep-alive connections, one at a time on each, and prints the
median of the rounds, in turn over the roots and numbers of servers; with it, the servers' processor
time for a message. The generator shares the machine with the servers. Several servers have a port
each and the same number of connections, or share one port with --reuse-port.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, cast

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


class Rate(NamedTuple):
    """Requests per second, and the servers' processor time for each."""

    per_second: float
    cpu_us: float


class Servers:
    """One or more `mq` on a fresh root; they are stopped, and the root removed, at the end."""

    def __init__(self, root: Path, count: int, reuse_port: bool) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=root))
        self.ports: list[int] = []
        self._processes: list[subprocess.Popen[str]] = []
        command = [sys.executable, "-m", "mq", f"--root={self._folder}/mq", "--visibility=600",
                   "--admin=", f"--peers={count - 1}"]  # fmt: skip
        for _ in range(count):
            port = self.ports[0] if self.ports and reuse_port else 0
            words = [*command, f"--port={port}", *(["--reuse-port"] if reuse_port else [])]
            server = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
            self._processes.append(server)
            assert server.stderr is not None
            found = (LISTENING.search(line) for line in server.stderr)
            self.ports.append(next(int(match[1]) for match in found if match))

    def cpu_seconds(self) -> float:
        """What all of them have used; /proc/PID/stat, proc(5)."""
        fields = [
            Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
            for server in self._processes
        ]
        return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        for server in self._processes:
            server.terminate()
        for server in self._processes:
            server.wait()
        shutil.rmtree(self._folder)


async def run_phase(
    ports: Sequence[int], requests: list[bytes], status: bytes, connections: int
) -> tuple[float, list[bytes]]:
    """Send all requests; returns requests per second and the message ids of the answers."""
    loop = asyncio.get_running_loop()
    ids: list[bytes] = []
    source = iter(requests)
    started = time.perf_counter()
    clients = [
        (await loop.create_connection(lambda: Client(source, status, ids), "127.0.0.1", port))[1]
        for port in itertools.islice(itertools.cycle(ports), connections)
    ]
    await asyncio.gather(*(client.done for client in clients))
    return len(requests) / (time.perf_counter() - started), ids


def request(method: str, path: str, body: bytes = b"") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body or method == "POST" else ""
    return f"{method} {path} HTTP/1.1\r\nHost: mq\r\n{length}\r\n".encode() + body


async def measure(servers: Servers, messages: int, connections: int, size: int) -> dict[str, Rate]:
    """One round over one queue: publish all, receive all, remove all."""
    rates = {}

    async def run(name: str, requests: list[bytes], status: bytes) -> list[bytes]:
        cpu = servers.cpu_seconds()
        rate, ids = await run_phase(servers.ports, requests, status, connections)
        rates[name] = Rate(rate, 1e6 * (servers.cpu_seconds() - cpu) / messages)
        return ids

    await run_phase(servers.ports, [request("PUT", "/bench")], b"201", 1)
    publish = request("POST", "/bench/messages", b"x" * size)
    await run("publish", [publish] * messages, b"201")
    ids = await run("receive", [request("GET", "/bench/messages")] * messages, b"200")
    assert len(set(ids)) == messages, "a message was received twice"
    removals = [request("DELETE", f"/bench/messages/{message_id.decode()}") for message_id in ids]
    await run("remove", removals, b"202")
    await run_phase(servers.ports, [request("DELETE", "/bench")], b"200", 1)
    return rates


def numbers(_context: click.Context, _parameter: click.Parameter, value: str) -> list[int]:
    return [int(number) for number in value.split(",")]


@click.command()
@click.argument("roots", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--rounds", default=3, show_default=True)
@click.option("--size", default=100, show_default=True, help="Bytes of a body.")
@click.option("--connections", default="1,64", show_default=True, callback=numbers)
@click.option("--messages", default=5000, show_default=True, help="At one connection a tenth.")
@click.option("--servers", default="1", show_default=True, callback=numbers, help="On one root.")
@click.option("--reuse-port", is_flag=True, help="The servers share a port.")
def main(*, roots: tuple[Path, ...], rounds: int, size: int, connections: list[int], messages: int,
         servers: list[int], reuse_port: bool) -> None:  # fmt: skip
    """Requests per second of publish, receive and remove."""
    found = defaultdict(list)
    for _ in range(rounds):
        for root, clients, count in itertools.product(roots, connections, servers):
            total = messages if clients > 1 else messages // 10
            started = Servers(root, count, reuse_port)
            try:
                rates = uvloop.run(measure(started, total, clients, size))
            finally:
                started.stop()
            for name, rate in rates.items():
                found[root, clients, count, name].append(rate)
    for (root, clients, count, name), each in found.items():
        rate, cpu_us = map(statistics.median, zip(*each, strict=True))
        print(f"{root!s:16} {clients:3} connections {count} servers {name:8} {rate:8.0f}/s  "
              f"({min(each)[0]:.0f} to {max(each)[0]:.0f})  {cpu_us:4.0f} us of processor"
              )  # fmt: skip


if __name__ == "__main__":
    main()
