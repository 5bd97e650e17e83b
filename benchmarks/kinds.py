"""What each kind of request costs, one message each.

    python benchmarks/kinds.py ROOT [CHECKOUT ...] [--kind handover]

The kinds take turns within each round, and so do the servers of several checkouts (`compare.py`).
Prints requests a second and the server's processor time for one, medians of the rounds; for each
further checkout also the median of the ratios of its rates to the first's.
"""

from __future__ import annotations

import itertools
import json
import statistics
import uuid
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click
import uvloop
from batches import publish_batch, receive_batch
from phases import BATCH, begin, close, end
from report import number, table
from servers import Target, more_descriptors, running_mq

from mq.ctl.bench.endpoints import Endpoints
from mq.ctl.bench.generator import Script, connect, play
from mq.ctl.bench.phases import PhaseRate, each, median_of, rate_of

OTHER = Endpoints(queue="other")
"""A second queue."""

Leased = tuple[str, str]
"""The id of a message that was received, and its lease."""


@dataclass(frozen=True)
class Load:
    """Requests for the messages of a queue."""

    queue: Endpoints
    body: bytes

    def post(self, query: str = "", **headers: str) -> bytes:
        return self._request("POST", query, self.body, headers)

    def get(self, query: str = "", **headers: str) -> bytes:
        return self._request("GET", query, b"", headers)

    def delete(self, message_id: str, **headers: str) -> bytes:
        return self._request("DELETE", f"/{message_id}", b"", headers)

    def _request(self, method: str, rest: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        path = f"/{self.queue.queue}/messages{rest}"
        head, separator, body = self.queue.request(method, path, body).partition(b"\r\n\r\n")
        lines = [f"\r\n{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return head + "".join(lines).encode() + separator + body

    def publish(self, count: int) -> Script:
        """Publish as many messages at least, in batches."""
        batch = publish_batch(self.queue, [self.body.decode("ascii")] * BATCH)
        for _ in range(0, count, BATCH):
            self.queue.check((yield batch))

    def receive(self, count: int) -> Generator[bytes, bytes, list[Leased]]:
        """Publish and receive messages."""
        yield from self.publish(count)
        found: list[Leased] = []
        while len(found) < count:
            answer = yield receive_batch(self.queue, BATCH)
            self.queue.check(answer)
            lines = map(json.loads, answer.partition(b"\r\n\r\n")[2].splitlines())
            found += [(line["id"], f'"{line["lease"]}"') for line in lines]
        return found[:count]


def own() -> str:
    return str(uuid.uuid4())


def trace() -> str:
    return f"00-{uuid.uuid4().hex}-0123456789abcdef-01"


PUBLISHES: dict[str, Callable[[Load], bytes]] = {
    "publish": lambda load: load.post(),
    "under an own id": lambda load: load.post(X_Message_Id=own()),
    "with a trace": lambda load: load.post(traceparent=trace()),
    "delayed": lambda load: load.post("?delay=600"),
    "delayed under an own id": lambda load: load.post("?delay=600", X_Message_Id=own()),
    "to two queues": lambda load: load.post(f"?also={OTHER.queue}"),
}

RECEIVES: dict[str, Callable[[Load], bytes]] = {
    "receive": lambda load: load.get(),
    "that may wait": lambda load: load.get("?wait=20"),
    "from the second queue": lambda load: load.get(f"?then={OTHER.queue}"),
}

OF_ONE: dict[str, Callable[[Load, str, str], bytes]] = {
    "remove": lambda load, each, _: load.delete(each),
    "under its lease": lambda load, each, lease: load.delete(each, If_Match=lease),
    "heartbeat": lambda load, each, lease: load.get(f"?id={each}&visibility=900", If_Match=lease),
    "release": lambda load, each, lease: load.get(f"?id={each}&visibility=0", If_Match=lease),
    "handover": lambda load, each, lease: load.post(
        f"?removes={load.queue.queue}/{each}", If_Match=lease
    ),
    "handover under an own id": lambda load, each, lease: load.post(
        f"?removes={load.queue.queue}/{each}", If_Match=lease, X_Message_Id=own()
    ),
}

KINDS = [*PUBLISHES, *RECEIVES, *OF_ONE]


def requests_of(kind: str, load: Load, count: int) -> Generator[bytes, bytes, Iterator[bytes]]:
    """Prepare what the requests of a kind need, and return them."""
    if kind in PUBLISHES:
        return iter([PUBLISHES[kind](load) for _ in range(count)])
    if kind in RECEIVES:
        source = load if kind != "from the second queue" else Load(OTHER, load.body)
        yield from source.publish(count)
        return itertools.repeat(RECEIVES[kind](load), count)
    leased = yield from load.receive(count)
    return iter([OF_ONE[kind](load, *one) for one in leased])


async def measure(target: Target, kind: str, count: int, width: int, body: bytes) -> PhaseRate:
    dialect = target.dialect
    assert isinstance(dialect, Endpoints)
    found: list[Iterator[bytes]] = []

    def prepare() -> Script:
        yield from OTHER.make_queue()
        found.append((yield from requests_of(kind, Load(dialect, body), count)))

    clients = await connect(dialect, target.addresses, width)
    try:
        await begin(target, clients[0])
        await clients[0].play(prepare())
        for client in clients:
            client.latencies = client.latencies[:0]
        scripts = [each(found[0], dialect.check) for _ in clients]
        sample = await play(clients, scripts, target.cpu_seconds)
        await clients[0].play(OTHER.delete_queue())
        await end(target, clients[0])
    finally:
        close(clients)
    return rate_of(sample, count)


def report(found: Mapping[tuple[str, int], list[PhaseRate]], checkouts: list[Path]) -> str:
    lines = []
    for (kind, place), rounds in found.items():
        rate = median_of(rounds)
        pairs = zip(rounds, found[kind, 0], strict=True)
        ratio = statistics.median(one.per_second / first.per_second for one, first in pairs)
        lines.append([
            kind, str(checkouts[place]), number(rate.per_second), number(rate.cpu_us or 0),
            f"{ratio:.2f}",
        ])  # fmt: skip
    return table(["", "server", "requests/s", "CPU, µs", "rate"], lines)


@click.command()
@click.argument("root", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("checkouts", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="All, by default.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--messages", default=3000, show_default=True, help="Of each kind.")
@click.option("--size", default=256, show_default=True, help="Bytes of a body.")
@click.option("--connections", default=64, show_default=True)
def main(*, root: Path, checkouts: tuple[Path, ...], kinds: tuple[str, ...], rounds: int,
         messages: int, size: int, connections: int) -> None:  # fmt: skip
    """Requests of each kind, paired in each round."""
    more_descriptors()
    those = [*checkouts] or [Path(__file__).parent.parent]
    found: dict[tuple[str, int], list[PhaseRate]] = defaultdict(list)
    with ExitStack() as stack:
        targets = [stack.enter_context(running_mq(root, checkout=each)) for each in those]
        for _ in range(rounds):
            for kind, (place, target) in itertools.product(kinds or KINDS, enumerate(targets)):
                measured = measure(target, kind, messages, connections, b"x" * size)
                found[kind, place].append(uvloop.run(measured))
    print(report(found, those))


if __name__ == "__main__":
    main()
