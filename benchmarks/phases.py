"""What is measured: phases, each of one kind of request, over any kind of server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

from batches import ids_in, publish_batch, receive_batch, remove_batch
from servers import Target

from mq.ctl.bench.endpoints import Endpoints
from mq.ctl.bench.generator import LoadConnection, LoadDialect, PhaseSample, Script, connect, play
from mq.ctl.bench.phases import (
    PhaseRate,
    Rates,
    cycle,
    cycles,
    each,
    measure_requests,
    rate_of,
)

BATCH = 100
"""Messages in a batch."""


async def measure(target: Target, messages: int, connections: int, body: bytes) -> Rates:
    """Publish all, receive all, remove all, one request for each message; then as many whole
    cycles, each connection with messages of its own making."""
    dialect = target.dialect
    clients = await connect(dialect, target.addresses, connections)
    try:
        await begin(target, clients[0])
        rates = await measure_requests(clients, dialect, messages, body, target.cpu_seconds)
        await end(target, clients[0])
    finally:
        close(clients)
    return rates


async def measure_batches(target: Target, messages: int, connections: int, body: bytes) -> Rates:
    """Measure as `measure` does, in batches of 100; rates are of messages."""
    dialect = target.dialect
    assert isinstance(dialect, Endpoints)
    count = max(1, messages // BATCH)
    rates = {}
    clients = await connect(dialect, target.addresses, connections)

    async def run(name: str, scripts: Sequence[Script]) -> None:
        rates[name] = rate_of(await play(clients, scripts, target.cpu_seconds), count * BATCH)

    def take(answer: bytes) -> None:
        dialect.check(answer)
        ids.extend(ids_in(answer))

    try:
        await begin(target, clients[0])
        ids: list[bytes] = []
        publish = publish_batch(dialect, [body.decode("ascii")] * BATCH)
        requests = itertools.repeat(publish, count)
        await run("publish", [each(requests, dialect.check) for _ in clients])
        asks = itertools.repeat(receive_batch(dialect, BATCH), count)
        await run("receive", [each(asks, take) for _ in clients])
        if len(set(ids)) != count * BATCH:
            raise RuntimeError(f"{len(set(ids))} messages received, not {count * BATCH}")
        parts = [ids[at : at + BATCH] for at in range(0, len(ids), BATCH)]
        removals = iter([remove_batch(dialect, part) for part in parts])
        await run("remove", [each(removals, dialect.check) for _ in clients])
        await end(target, clients[0])
    finally:
        close(clients)
    return rates


async def measure_many(
    target: Target, messages: int, connections: int, body: bytes
) -> tuple[PhaseRate, PhaseRate]:
    """Run whole cycles over that many connections, and those of one more client beside them."""
    dialect = target.dialect
    clients = await connect(dialect, target.addresses, connections + 1)
    good = clients[-1]
    try:
        await begin(target, good)
        numbers = iter(range(messages))
        others = [cycles(dialect, body, numbers) for _ in clients[:-1]]
        is_over = asyncio.Event()
        beside = good.play(cycles_until(dialect, body, is_over))
        sample = await play(clients[:-1], others, target.cpu_seconds)
        is_over.set()
        await beside
        latencies = list(good.latencies)
        await end(target, good)
    finally:
        close(clients)
    lone = PhaseSample(sample.seconds, None, sample.busy, latencies)
    return rate_of(sample, messages), rate_of(lone, len(latencies) // 3)


def cycles_until(dialect: LoadDialect, body: bytes, is_over: asyncio.Event) -> Script:
    while not is_over.is_set():
        yield from cycle(dialect, body)


async def begin(target: Target, client: LoadConnection) -> None:
    if isinstance(target.dialect, Endpoints):
        await client.play(target.dialect.make_queue())
    client.latencies = client.latencies[:0]


async def end(target: Target, client: LoadConnection) -> None:
    if isinstance(target.dialect, Endpoints):
        await client.play(target.dialect.delete_queue())


def close(clients: Sequence[LoadConnection]) -> None:
    for client in clients:
        client.close()
