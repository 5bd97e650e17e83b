"""Requests per second of publish, receive and remove, at 1 and 64 connections, of several servers.

    python benchmarks/throughput.py ROOT [ROOT ...]
    python benchmarks/throughput.py --servers 1,3 --connections 64 ROOT
    python benchmarks/throughput.py --servers 1,3 --apart --connections 9,63 ROOT

Starts `mq` on a fresh folder below each ROOT (make it on tmpfs, or on a loop-mounted ext4 or xfs),
sends requests from this process over keep-alive connections, one at a time on each, and prints the
median of the rounds, in turn over the roots and numbers of servers; with it, the servers' processor
time for a message. The generator shares the machine with the servers. Several servers have a port
each and the same number of connections, or share one port with --reuse-port.

With --apart the same number of servers also works with a root for each, so that they share nothing
but the machine and its disk: what several servers could reach on it if sharing a root were free.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click
import uvloop
from bench import numbers
from phases import measure
from results import Results
from servers import Target, running_mq

from mq.ctl.bench.phases import PhaseRate, Rates


@click.command()
@click.argument("roots", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--rounds", default=3, show_default=True)
@click.option("--size", default=100, show_default=True, help="Bytes of a body.")
@click.option("--connections", default="1,64", show_default=True, callback=numbers)
@click.option("--messages", default=5000, show_default=True, help="At one connection a tenth.")
@click.option("--servers", default="1", show_default=True, callback=numbers, help="On one root.")
@click.option("--apart", is_flag=True, help="Several servers also with a root for each.")
@click.option("--reuse-port", is_flag=True, help="The servers share a port.")
def main(*, roots: tuple[Path, ...], rounds: int, size: int, connections: list[int], messages: int,
         servers: list[int], apart: bool, reuse_port: bool) -> None:  # fmt: skip
    """Requests per second of publish, receive and remove."""
    found = Results()
    body = b"x" * size
    for _ in range(rounds):
        for root, clients, count in itertools.product(roots, connections, servers):
            total = messages if clients > 1 else max(1, messages // 10)
            with running_mq(root, count=count, reuse_port=reuse_port) as target:
                rates = uvloop.run(measure(target, total, clients, body))
            found.add("throughput", f"{count} servers", str(root), clients, rates)
            if apart and 1 < count <= clients:
                with ExitStack() as running:
                    targets = [running.enter_context(running_mq(root)) for _ in range(count)]
                    rates = uvloop.run(measure_apart(targets, total, clients, body))
                found.add("throughput", f"{count} apart", str(root), clients, rates)
    for row in found.rows():
        print(f"{row.place:16} {row.width:3} connections {row.server:9} {row.phase:8} "
              f"{row.per_second:8.0f}/s  ({min(row.each):.0f} to {max(row.each):.0f})  "
              f"{row.cpu_us or 0:4.0f} us of processor")  # fmt: skip


async def measure_apart(
    targets: Sequence[Target], messages: int, connections: int, body: bytes
) -> Rates:
    """Share messages and connections evenly among servers that know nothing of each other. Their
    rates are added, although the phases of one may outlast those of another: the sum is a little
    too high rather than too low."""
    share, clients = messages // len(targets), connections // len(targets)
    found = await asyncio.gather(*(measure(each, share, clients, body) for each in targets))
    return {phase: in_sum([rates[phase] for rates in found]) for phase in found[0]}


def in_sum(rates: Sequence[PhaseRate]) -> PhaseRate:
    cpu = [each.cpu_us for each in rates if each.cpu_us is not None]
    return PhaseRate(
        sum(each.per_second for each in rates),
        statistics.mean(cpu) if cpu else None,
        statistics.mean(each.p50_ms for each in rates),
        max(each.p99_ms for each in rates),
        max(each.busy for each in rates),
    )


if __name__ == "__main__":
    main()
