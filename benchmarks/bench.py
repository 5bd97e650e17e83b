"""How fast MQ is here, beside what no server on this machine can do better, and beside others.

    make bench
    python benchmarks/bench.py [--json FILE] [--rounds 5] [--url NAME=URL] [FOLDER ...]

Measures ceilings (`ceilings.py`), requests, batches and many connections (`phases.py`) on each file
system (`disks.py`), and the servers of `peers/` that are installed, on the first one with a disk.
The parts take turns, round after round, and each figure is the median of its rounds. The generator
(`mq.ctl.bench`) shares the machine with the servers. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click
import uvloop
from ceilings import IDLE, MOST_IN_ONE_READ, compiled, file_calls, measure_idle, running_idle
from disks import folders
from peers import PEERS, Peer
from phases import measure, measure_batches, measure_many
from report import report
from results import Results, Stopwatch, write_json
from servers import Target, listener_of, more_descriptors, running_mq

from mq.ctl.bench.endpoints import Endpoints
from mq.ctl.bench.phases import PhaseRate
from mq.spool.file_system import file_system_kind

MEMORY = ("tmpfs", "ramfs")
PARTS = ("ceilings", "requests", "batches", "many", "peers")
PEER_NAMES = ",".join(peer.name for peer in PEERS)


@dataclass(frozen=True)
class Plan:
    """What to measure. `messages` are those of a phase; a single connection has a tenth."""

    parts: Sequence[str]
    messages: int
    connections: Sequence[int]
    batch_connections: Sequence[int]
    many: Sequence[int]
    peers: Sequence[Peer]
    body: bytes

    def messages_at(self, connections: int) -> int:
        return self.messages if connections > 1 else max(1, self.messages // 10)


def measure_ceilings(plan: Plan, places: Mapping[str, Path], program: Path | None, found: Results
                     ) -> None:  # fmt: skip
    for kind in IDLE:
        with running_idle(kind) as target:
            for count in plan.connections:
                messages = 5 * plan.messages_at(count)
                rates = uvloop.run(measure_idle(target, messages, count, plan.body))
                found.add("idle", kind, "", count, rates)
    if program is None:
        return
    for place, folder in places.items():
        calls = file_calls(program, folder, plan.messages, len(plan.body))
        for (kind, round_, phase), (rate, took) in calls.items():
            unknown = PhaseRate(rate, None, took, took, 0.0)
            found.add("files", kind, place, round_, {phase: unknown})


def measure_mq(plan: Plan, place: str, folder: Path, found: Results) -> None:
    with running_mq(folder) as target:
        if "requests" in plan.parts:
            measure_requests(plan, "requests", place, target, found)
        if "batches" in plan.parts:
            for count in plan.batch_connections:
                rates = uvloop.run(measure_batches(target, plan.messages, count, plan.body))
                found.add("batches", target.name, place, count, rates)
        if "many" in plan.parts:
            for count in plan.many:
                messages = max(plan.messages, count)
                cycle, beside = uvloop.run(measure_many(target, messages, count, plan.body))
                rates = {"cycle": cycle, "beside": beside}
                found.add("many", target.name, place, count, rates)


def measure_requests(plan: Plan, part: str, place: str, target: Target, found: Results) -> None:
    for count in plan.connections:
        messages = plan.messages_at(count)
        rates = uvloop.run(measure(target, messages, count, plan.body))
        found.add(part, target.name, place, count, rates)


def measure_peers(plan: Plan, place: str, folder: Path, found: Results) -> None:
    for peer in plan.peers:
        program = peer.find()
        if program is None:
            continue
        with tempfile.TemporaryDirectory(dir=folder) as below:
            try:
                with peer.running(program, Path(below)) as target:
                    measure_requests(plan, "peers", place, target, found)
            except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
                print(f"{peer.name} left out: {error}", file=sys.stderr)


def name_missing_peers(peers: Sequence[Peer]) -> None:
    missing = [peer.package for peer in peers if peer.find() is None]
    if missing:
        print(f"not installed, so not compared: {', '.join(missing)} (Debian packages)",
              file=sys.stderr)  # fmt: skip


def measure_round(
    plan: Plan, places: Mapping[str, Path], program: Path | None, others: Sequence[Target],
    found: Results,
) -> None:  # fmt: skip
    disk, below = first_disk(places)
    if "ceilings" in plan.parts:
        measure_ceilings(plan, places, program, found)
    if set(plan.parts) - {"ceilings", "peers"}:
        for place, folder in places.items():
            measure_mq(plan, place, folder, found)
    if "peers" in plan.parts:
        measure_peers(plan, disk, below, found)
    for other in others:
        measure_requests(plan, "peers", disk, other, found)


def rounds_within(rounds: int, minutes: float) -> Iterator[int]:
    """Yield the numbers of the rounds. After the first, none begins that would end too late if it
    took as long as the longest."""
    started, longest = time.monotonic(), 0.0
    for number in range(1, rounds + 1):
        begun = time.monotonic()
        if number > 1 and begun - started + longest > 60 * minutes:
            print(f"no round {number}: it would end after {minutes:g} minutes", file=sys.stderr)
            return
        print(f"round {number} of {rounds}", file=sys.stderr)
        yield number
        longest = max(longest, time.monotonic() - begun)


def first_disk(places: Mapping[str, Path]) -> tuple[str, Path]:
    on_disk = [place for place, folder in places.items() if file_system_kind(folder) not in MEMORY]
    place = (on_disk or list(places))[0]
    return place, places[place]


def numbers(_context: click.Context, _parameter: click.Parameter, value: str) -> list[int]:
    try:
        return [int(number) for number in value.split(",") if number]
    except ValueError:
        raise click.BadParameter("give whole numbers, as in 1,64,256") from None


def targets(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]
            ) -> list[Target]:  # fmt: skip
    """Return servers by address. Those of this machine are asked for their processor time too."""
    found = []
    for value in values:
        name, separator, url = value.partition("=")
        address = urlsplit(url if separator else value)
        if address.scheme != "http" or not address.hostname:
            raise click.BadParameter(f"{value} is not http://HOST:PORT, or NAME=http://HOST:PORT")
        port = address.port or 80
        endpoints = Endpoints(address.netloc)
        found.append(Target(
            name if separator else address.netloc, [(address.hostname, port)], endpoints,
            listener_of(port) if address.hostname in ("127.0.0.1", "localhost") else (),
        ))  # fmt: skip
    return found


@click.command()
@click.argument("roots", nargs=-1, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--rounds", default=3, show_default=True)
@click.option(
    "--minutes", default=10.0, show_default=True, help="No further round if it would end later."
)
@click.option("--messages", default=3000, show_default=True, help="Of a phase.")
@click.option("--size", default=256, show_default=True, help="Bytes of a body.")
@click.option("--connections", default="1,64,256", show_default=True, callback=numbers)
@click.option("--batch-connections", default="1,8", show_default=True, callback=numbers)
@click.option("--many", default="64,256,1000", show_default=True, callback=numbers)
@click.option("--parts", default=",".join(PARTS), show_default=True, help="Which to measure.")
@click.option("--peers", default=PEER_NAMES, show_default=True, help="Those of the part peers.")
@click.option(
    "--url",
    "others",
    multiple=True,
    callback=targets,
    metavar="NAME=URL",
    help="A server with MQ's endpoints, at that address. It may be given several times.",
)
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write what was found there.")
def main(*, roots: tuple[Path, ...], rounds: int, minutes: float, messages: int, size: int,
         connections: list[int], batch_connections: list[int], many: list[int], parts: str,
         peers: str, others: list[Target], file: Path | None) -> None:  # fmt: skip
    """MQ here: requests, batches, many connections; ceilings and other servers."""
    require_known("part", parts, PARTS)
    require_known("peer", peers, PEER_NAMES.split(","))
    if "ceilings" in parts.split(",") and size > MOST_IN_ONE_READ:
        raise click.BadParameter(
            f"the ceilings over HTTP take bodies of up to {MOST_IN_ONE_READ} bytes, which come in "
            "one read; leave them out, as in --parts requests,batches",
            param_hint="--size",
        )
    chosen = [peer for peer in PEERS if peer.name in peers.split(",")]
    plan = Plan(parts.split(","), messages, connections, batch_connections, many, chosen,
                b"x" * size)  # fmt: skip
    more_descriptors()
    watch, found = Stopwatch("benchmarks/bench.py"), Results()
    with compiled() as program, folders(roots) as places:
        if "peers" in plan.parts:
            name_missing_peers(plan.peers)
        for _ in rounds_within(rounds, minutes):
            measure_round(plan, places, program, others, found)
        durability = {place: durability_of(folder) for place, folder in places.items()}
    rows = found.rows()
    if not rows:
        raise click.ClickException("nothing was measured: nothing of what was asked for is here")
    measured = {row.server for row in rows}
    durability |= {peer.name: peer.durability for peer in PEERS if peer.name in measured}
    run_ = watch.circumstances(durability, size, max(len(row.each) for row in rows))
    print(report(run_, rows))
    if file is not None:
        write_json(file, run_, rows)


def require_known(what: str, given: str, known: Sequence[str]) -> None:
    """Raise BadParameter if a name in the list that was given is not known."""
    if unknown := set(filter(None, given.split(","))) - set(known):
        raise click.BadParameter(f"no {what} {', '.join(sorted(unknown))}: {', '.join(known)}")


def durability_of(folder: Path) -> str:
    if file_system_kind(folder) in MEMORY:
        return "in memory, nothing is synced"
    return "every answer is on stable media, as far as the device under it goes"


if __name__ == "__main__":
    main()
