"""What a message costs when each is in another queue.

    python benchmarks/many_queues.py ROOT [--queues 1,100,1000]

One server with all queues; the numbers of queues take turns within each round. The first request is
for the first queue, the next for the second, and so on, over all connections. Prints messages a
second and the server's processor time for each, medians of the rounds, and the medians of their
ratios to the first number of queues.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import click
import uvloop
from phases import close
from report import number, table
from servers import Target, more_descriptors, running_mq

from mq.ctl.bench.endpoints import Endpoints
from mq.ctl.bench.generator import LoadConnection, Script, connect, play
from mq.ctl.bench.phases import Rates, each, rate_of, receive

_BODY = b"x" * 256


def receive_in_turn(
    queues: Sequence[Endpoints], numbers: Sequence[int], removals: list[bytes]
) -> Script:
    """Receive from the queues with these numbers, and make the requests that remove what came."""
    for at in numbers:
        queue = queues[at % len(queues)]
        removals.append(queue.remove((yield from receive(queue))))


async def measure(
    target: Target, clients: Sequence[LoadConnection], queues: Sequence[Endpoints], messages: int
) -> Rates:
    """Publish all, receive all, remove all, one request for each message."""
    rates: Rates = {}
    parts = [range(first, messages, len(clients)) for first in range(len(clients))]
    removals: list[list[bytes]] = [[] for _ in clients]

    async def run(name: str, scripts: Sequence[Script]) -> None:
        rates[name] = rate_of(await play(clients, scripts, target.cpu_seconds), messages)

    requests = [queue.publish(_BODY) for queue in queues]
    await run("publish", [
        each((requests[at % len(queues)] for at in part), queues[0].check) for part in parts
    ])  # fmt: skip
    await run("receive", [
        receive_in_turn(queues, part, own) for part, own in zip(parts, removals, strict=True)
    ])  # fmt: skip
    await run("remove", [each(iter(own), queues[0].check) for own in removals])
    return rates


async def measure_rounds(
    target: Target, numbers: Sequence[int], rounds: int, messages: int, connections: int
) -> dict[int, list[Rates]]:
    queues = [Endpoints(queue=f"bench{at}") for at in range(max(numbers))]
    clients = await connect(target.dialect, target.addresses, connections)
    try:
        for queue in queues:
            await clients[0].play(queue.make_queue())
        for client in clients:
            client.latencies = client.latencies[:0]
        found: dict[int, list[Rates]] = {count: [] for count in numbers}
        for _ in range(rounds):
            for count in numbers:
                found[count].append(await measure(target, clients, queues[:count], messages))
    finally:
        close(clients)
    return found


def report(found: dict[int, list[Rates]]) -> str:
    first, *_ = found.values()
    lines = []
    for count, rounds in found.items():
        for phase in first[0]:
            both = [(one[phase], other[phase]) for one, other in zip(first, rounds, strict=True)]
            lines.append([
                str(count), phase,
                number(statistics.median(other.per_second for _, other in both)),
                number(statistics.median(other.cpu_us or 0 for _, other in both)),
                f"{statistics.median(b.per_second / a.per_second for a, b in both):.2f}",
                f"{statistics.median((b.cpu_us or 0) / (a.cpu_us or 1) for a, b in both):.2f}",
            ])  # fmt: skip
    return table(["queues", "", "messages/s", "CPU, µs", "rate", "CPU"], lines)


@click.command()
@click.argument("root", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--queues", default="1,100,1000", show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--messages", default=5000, show_default=True, help="Of a phase.")
@click.option("--connections", default=64, show_default=True)
def main(*, root: Path, queues: str, rounds: int, messages: int, connections: int) -> None:
    """Requests to one queue after the other, paired in each round."""
    more_descriptors()
    numbers = [int(count) for count in queues.split(",")]
    with running_mq(root) as target:
        print(report(uvloop.run(measure_rounds(target, numbers, rounds, messages, connections))))


if __name__ == "__main__":
    main()
