"""What no server here can do better: the file calls alone, and HTTP alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from phases import close
from servers import Target, listening

from mq.ctl.bench.endpoints import Endpoints
from mq.ctl.bench.generator import connect, play
from mq.ctl.bench.phases import Rates, each, rate_of
from mq.spool.file_system import file_system_kind, keeps_order

HERE = Path(__file__).parent
ROUNDS_OF = (64, 512)
"""How many messages share a sync in the rounds of the file calls."""

IDLE = {"aiohttp": "an aiohttp handler that does nothing", "bare": "a protocol of fixed bytes"}

MOST_IN_ONE_READ = 16_384
"""A longer request may come in several pieces, each of which `bare` would answer."""


class FileRate(NamedTuple):
    per_second: float
    round_ms: float


FileCalls = dict[tuple[str, int, str], FileRate]
"""By what was run (`single`, `batch`, `file`), messages a round, and phase."""


@contextmanager
def compiled() -> Iterator[Path | None]:
    """Compile the program of the file calls, and yield it; None, with a word, where there is no
    compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        print("no file calls in C: there is no cc here (Debian: apt-get install gcc libc6-dev)",
              file=sys.stderr)  # fmt: skip
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "filecalls"
        source = HERE / "filecalls.c"
        subprocess.run([compiler, "-O2", "-o", str(program), str(source)], check=True)
        yield program


def file_calls(program: Path, folder: Path, messages: int, size: int) -> FileCalls:
    """Run one round of each kind of file calls."""
    found: FileCalls = {}
    alone = max(1, messages // 10)
    runs: list[tuple[str, int, int]] = [("file", alone, 1), ("single", alone, 1)]
    runs += [(kind, messages, round_) for kind in ("single", "batch") for round_ in ROUNDS_OF]
    for kind, count, round_ in runs:
        rates = run_file_calls(program, folder, kind=kind, messages=count, round_=round_, size=size)
        for phase, rate in rates.items():
            found[kind, round_, phase] = rate
    return found


def run_file_calls(
    program: Path, folder: Path, *, kind: str, messages: int, round_: int, size: int, depth: int = 0
) -> dict[str, FileRate]:
    """Run the file calls of one kind, in a queue in which `depth` messages wait. Returns their
    rates by phase."""
    root = tempfile.mkdtemp(dir=folder)
    numbers = [str(number) for number in (messages, round_, size)]
    words = [str(program), root, kind, *numbers, how_synced(folder), str(depth)]
    try:
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    finally:
        shutil.rmtree(root)
    lines = [line.split() for line in done.stdout.splitlines()]
    return {phase: FileRate(float(rate), 1000 * float(took)) for phase, rate, took in lines}


def how_synced(folder: Path) -> str:
    """Return how a server syncs the rounds of a root in that folder, in the words of the
    program."""
    kind = file_system_kind(folder)
    return "log" if kind in ("ext4", "xfs") and keeps_order(folder, kind) else "each"


@contextmanager
def running_idle(kind: str) -> Iterator[Target]:
    with listening([sys.executable, str(HERE / "idle.py"), kind]) as (pid, port):
        yield Target(kind, [("127.0.0.1", port)], Endpoints(), [pid])


async def measure_idle(target: Target, messages: int, connections: int, body: bytes) -> Rates:
    """Send the requests of `phases.measure`, which get no real answers."""
    dialect = target.dialect
    requests = {
        "publish": dialect.publish(body),
        "receive": dialect.receive(),
        "remove": dialect.remove(b"01a20140-d3af-7186-96b8-c7efd665b1c4"),
    }
    clients = await connect(dialect, target.addresses, connections)
    rates = {}
    try:
        for name, request in requests.items():
            left = iter([request] * messages)
            scripts = [each(left, dialect.check) for _ in clients]
            rates[name] = rate_of(await play(clients, scripts, target.cpu_seconds), messages)
    finally:
        close(clients)
    return rates
