"""What is measured: phases, each of one kind of request."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

from mq.ctl.bench.generator import LoadConnection, LoadDialect, PhaseSample, Script, play

PHASES = ("publish", "receive", "remove", "cycle")

_EMPTY_RECEIVES = 10_000
"""After this many receives in a row without a message, something is wrong."""


class PhaseRate(NamedTuple):
    """One round of one phase: messages a second, the servers' processor time for each in
    microseconds (None if nobody can tell), milliseconds of a request, and how much of one processor
    the generator took."""

    per_second: float
    cpu_us: float | None
    p50_ms: float
    p99_ms: float
    busy: float


Rates = dict[str, PhaseRate]


def rate_of(sample: PhaseSample, messages: int) -> PhaseRate:
    ordered = sorted(sample.latencies)
    cpu = sample.cpu_seconds
    return PhaseRate(
        messages / sample.seconds,
        None if cpu is None else 1e6 * cpu / messages,
        1000 * statistics.median(ordered),
        1000 * percentile(ordered, 0.99),
        sample.busy,
    )


def median_of(rounds: Sequence[PhaseRate]) -> PhaseRate:
    """Return the median of each figure. The processor time is None if it is so in a round."""
    cpu = [each.cpu_us for each in rounds if each.cpu_us is not None]
    return PhaseRate(
        statistics.median(each.per_second for each in rounds),
        statistics.median(cpu) if len(cpu) == len(rounds) else None,
        statistics.median(each.p50_ms for each in rounds),
        statistics.median(each.p99_ms for each in rounds),
        statistics.median(each.busy for each in rounds),
    )


def percentile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


async def measure_requests(
    clients: Sequence[LoadConnection],
    dialect: LoadDialect,
    messages: int,
    body: bytes,
    cpu_seconds: Callable[[], float | None] = lambda: None,
) -> Rates:
    """Publish all, receive all, remove all, one request for each message; then as many whole
    cycles, each connection with messages of its own making. Raises RuntimeError if an
    answer says that something was not done, OSError, TimeoutError."""
    rates = {}

    async def run(name: str, scripts: Sequence[Script]) -> None:
        rates[name] = rate_of(await play(clients, scripts, cpu_seconds), messages)

    requests = itertools.repeat(dialect.publish(body), messages)
    await run("publish", [each(requests, dialect.check) for _ in clients])
    numbers = iter(range(messages))
    # Each removes what it received: of some servers a message is its connection's.
    own: list[list[bytes]] = [[] for _ in clients]
    await run("receive", [receive_each(dialect, numbers, ids) for ids in own])
    await run("remove", [each(map(dialect.remove, ids), dialect.check) for ids in own])
    numbers = iter(range(messages))
    await run("cycle", [cycles(dialect, body, numbers) for _ in clients])
    return rates


def each(requests: Iterator[bytes], take: Callable[[bytes], object]) -> Script:
    for request in requests:
        take((yield request))


def receive_each(dialect: LoadDialect, numbers: Iterator[int], ids: list[bytes]) -> Script:
    for _ in numbers:
        ids.append((yield from receive(dialect)))


def receive(dialect: LoadDialect) -> Generator[bytes, bytes, bytes]:
    """Ask until there is a message: another connection may have been faster."""
    for _ in range(_EMPTY_RECEIVES):
        message_id = dialect.message_id((yield dialect.receive()))
        if message_id is not None:
            return message_id
    raise RuntimeError("no message came, though one was published for each who asks")


def cycles(dialect: LoadDialect, body: bytes, numbers: Iterator[int]) -> Script:
    for _ in numbers:
        yield from cycle(dialect, body)


def cycle(dialect: LoadDialect, body: bytes) -> Script:
    dialect.check((yield dialect.publish(body)))
    message_id = yield from receive(dialect)
    dialect.check((yield dialect.remove(message_id)))
