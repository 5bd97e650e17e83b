"""What is measured: phases, each of one kind of request, over any kind of server."""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

from endpoints import Endpoints
from load import Client, Dialect, Sample, Script, connect, play
from servers import Target

BATCH = 100
"""Messages in a batch."""

_EMPTY_RECEIVES = 10_000
"""After this many receives in a row without a message, something is wrong."""


class Rate(NamedTuple):
    """One round of one phase: messages a second, the servers' processor time for each in
    microseconds (None if nobody can tell), milliseconds of a request, and how much of one processor
    the generator took."""

    per_second: float
    cpu_us: float | None
    p50_ms: float
    p99_ms: float
    busy: float


Rates = dict[str, Rate]


def rate_of(sample: Sample, messages: int) -> Rate:
    ordered = sorted(sample.latencies)
    cpu = sample.cpu_seconds
    return Rate(
        messages / sample.seconds,
        None if cpu is None else 1e6 * cpu / messages,
        1000 * statistics.median(ordered),
        1000 * percentile(ordered, 0.99),
        sample.busy,
    )


def percentile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


async def measure(target: Target, messages: int, connections: int, body: bytes) -> Rates:
    """Publish all, receive all, remove all, one request for each message; then as many whole
    cycles, each connection with messages of its own making."""
    dialect = target.dialect
    rates = {}
    clients = await connect(dialect, target.addresses, connections)

    async def run(name: str, scripts: Sequence[Script]) -> None:
        rates[name] = rate_of(await play(clients, scripts, target.cpu_seconds), messages)

    try:
        await begin(target, clients[0])
        requests = itertools.repeat(dialect.publish(body), messages)
        await run("publish", [each(requests, dialect.check) for _ in clients])
        numbers = iter(range(messages))
        # Each removes what it received: of some servers a message is its connection's.
        own: list[list[bytes]] = [[] for _ in clients]
        await run("receive", [receive_each(dialect, numbers, ids) for ids in own])
        await run("remove", [each(map(dialect.remove, ids), dialect.check) for ids in own])
        numbers = iter(range(messages))
        await run("cycle", [cycles(dialect, body, numbers) for _ in clients])
        await end(target, clients[0])
    finally:
        close(clients)
    return rates


async def measure_batches(target: Target, messages: int, connections: int, body: bytes) -> Rates:
    """The same in batches of 100; rates are of messages."""
    dialect = target.dialect
    assert isinstance(dialect, Endpoints)
    count = max(1, messages // BATCH)
    rates = {}
    clients = await connect(dialect, target.addresses, connections)

    async def run(name: str, scripts: Sequence[Script]) -> None:
        rates[name] = rate_of(await play(clients, scripts, target.cpu_seconds), count * BATCH)

    try:
        await begin(target, clients[0])
        ids: list[bytes] = []
        publish = dialect.publish_batch([body.decode("ascii")] * BATCH)
        requests = itertools.repeat(publish, count)
        await run("publish", [each(requests, dialect.check) for _ in clients])
        asks = itertools.repeat(dialect.receive_batch(BATCH), count)
        await run("receive", [
            each(asks, lambda answer: ids.extend(dialect.message_ids(answer))) for _ in clients
        ])  # fmt: skip
        if len(set(ids)) != count * BATCH:
            raise RuntimeError(f"{len(set(ids))} messages received, not {count * BATCH}")
        parts = [ids[at : at + BATCH] for at in range(0, len(ids), BATCH)]
        removals = iter([dialect.remove_batch(part) for part in parts])
        await run("remove", [each(removals, dialect.check) for _ in clients])
        await end(target, clients[0])
    finally:
        close(clients)
    return rates


async def measure_many(
    target: Target, messages: int, connections: int, body: bytes
) -> tuple[Rate, Rate]:
    """Whole cycles over that many connections, and those of one more client beside them."""
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
    lone = Sample(sample.seconds, None, sample.busy, latencies)
    return rate_of(sample, messages), rate_of(lone, len(latencies) // 3)


def each(requests: Iterator[bytes], take: Callable[[bytes], object]) -> Script:
    for request in requests:
        take((yield request))


def receive_each(dialect: Dialect, numbers: Iterator[int], ids: list[bytes]) -> Script:
    for _ in numbers:
        ids.append((yield from receive(dialect)))


def receive(dialect: Dialect) -> Generator[bytes, bytes, bytes]:
    """Asks until there is a message: another connection may have been faster."""
    for _ in range(_EMPTY_RECEIVES):
        message_id = dialect.message_id((yield dialect.receive()))
        if message_id is not None:
            return message_id
    raise RuntimeError("no message came, though one was published for each who asks")


def cycles(dialect: Dialect, body: bytes, numbers: Iterator[int]) -> Script:
    for _ in numbers:
        yield from cycle(dialect, body)


def cycles_until(dialect: Dialect, body: bytes, is_over: asyncio.Event) -> Script:
    while not is_over.is_set():
        yield from cycle(dialect, body)


def cycle(dialect: Dialect, body: bytes) -> Script:
    dialect.check((yield dialect.publish(body)))
    message_id = yield from receive(dialect)
    dialect.check((yield dialect.remove(message_id)))


async def begin(target: Target, client: Client) -> None:
    if isinstance(target.dialect, Endpoints):
        await client.play(target.dialect.make_queue())
    client.latencies = client.latencies[:0]


async def end(target: Target, client: Client) -> None:
    if isinstance(target.dialect, Endpoints):
        await client.play(target.dialect.delete_queue())


def close(clients: Sequence[Client]) -> None:
    for client in clients:
        client.close()
