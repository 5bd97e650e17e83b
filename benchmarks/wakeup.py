"""How long a long poll takes to wake, and what waiting costs.

    python benchmarks/wakeup.py ROOT

Starts `mq` on a fresh folder below ROOT. For each number of waiters: they wait for one queue, one
message at a time is published, and the waiter that gets it waits again; the time is from sending
the publish to the waiter's answer. At the end it measures the server's CPU time while --idle
clients wait and nothing happens. The clients share the machine with the server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import click
import uvloop
from servers import cpu_seconds, more_descriptors, running_mq

from mq.ctl.bench.phases import percentile

FETCH = b"GET /bench/messages?wait=60&visibility=3600 HTTP/1.1\r\nHost: mq\r\n\r\n"
PUBLISH = b"POST /bench/messages HTTP/1.1\r\nHost: mq\r\nContent-Length: 4\r\n\r\nbody"


class Waiters:
    """Connections that wait; `answers` has the time of each answer with a message."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._tasks: list[asyncio.Task[None]] = []
        self.answers: asyncio.Queue[float] = asyncio.Queue()

    async def grow(self, count: int) -> None:
        while len(self._tasks) < count:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            self._tasks.append(asyncio.create_task(self._wait(reader, writer)))

    async def _wait(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(FETCH)
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"HTTP/1.1 200"):
                    self.answers.put_nowait(time.perf_counter())
                    await reader.readexactly(4)
        finally:
            writer.close()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def measure(port: int, counts: list[int], samples: int) -> dict[int, list[float]]:
    """Return the milliseconds of each wake-up, by the number of waiters."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"PUT /bench HTTP/1.1\r\nHost: mq\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    waiters = Waiters(port)
    found: dict[int, list[float]] = {}
    for count in counts:
        await waiters.grow(count)
        await asyncio.sleep(1)
        found[count] = []
        for _ in range(samples):
            started = time.perf_counter()
            writer.write(PUBLISH)
            found[count].append(1000 * (await waiters.answers.get() - started))
            await reader.readuntil(b"\r\n\r\n")
    await waiters.close()
    writer.close()
    return found


async def measure_idle(port: int, pids: Sequence[int], count: int, seconds: float) -> float:
    """Return the server's CPU time in percent of one processor while `count` clients wait."""
    waiters = Waiters(port)
    await waiters.grow(count)
    await asyncio.sleep(3)
    before = cpu_seconds(pids)
    await asyncio.sleep(seconds)
    used = cpu_seconds(pids) - before
    await waiters.close()
    return 100 * used / seconds


@click.command()
@click.argument("root", type=click.Path(path_type=Path, exists=True))
@click.option("--waiters", default="1,1000", show_default=True)
@click.option("--samples", default=1000, show_default=True, help="Messages for each number.")
@click.option("--idle", default=5000, show_default=True, help="Waiters while nothing happens.")
@click.option("--seconds", default=10.0, show_default=True, help="How long nothing happens.")
def main(root: Path, waiters: str, samples: int, idle: int, seconds: float) -> None:
    """Latency of long polls, and CPU time while they wait."""
    more_descriptors()
    with running_mq(root) as target:
        port = target.addresses[0][1]
        counts = [int(count) for count in waiters.split(",")]
        for count, times in uvloop.run(measure(port, counts, samples)).items():
            times.sort()
            p50, p99 = percentile(times, 0.5), percentile(times, 0.99)
            print(f"{count:5} waiters   wake-up p50 {p50:6.2f} ms   p99 {p99:6.2f} ms   "
                  f"({len(times)} messages)")  # fmt: skip
        if idle:
            percent = uvloop.run(measure_idle(port, target.pids, idle, seconds))
            print(
                f"{idle:5} waiters   idle CPU {percent:.1f} % of one processor over {seconds:g} s"
            )


if __name__ == "__main__":
    main()
