"""What was found: a row for each thing measured, the median of its rounds; and on which machine."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mq.ctl.bench.phases import PhaseRate

BUSY = 0.9
"""Above this part of a processor the generator is what was measured."""


@dataclass(frozen=True)
class Row:
    """The medians of one thing's rounds. `width` is how many connections were open, of file calls
    how many messages shared a sync; `each` has messages a second of all rounds."""

    part: str
    server: str
    place: str
    width: int
    phase: str
    per_second: float
    cpu_us: float | None
    p50_ms: float
    p99_ms: float | None
    busy: float | None
    each: list[float] = field(default_factory=list)


Key = tuple[str, str, str, int, str]


class Results:
    """Rounds as they come, in the order in which things are first seen."""

    def __init__(self) -> None:
        self._rounds: dict[Key, list[PhaseRate]] = {}

    def add(self, part: str, server: str, place: str, width: int, rates: Mapping[str, PhaseRate]
            ) -> None:  # fmt: skip
        for phase, rate in rates.items():
            self._rounds.setdefault((part, server, place, width, phase), []).append(rate)

    def rounds(self, key: Key) -> list[PhaseRate]:
        return self._rounds[key]

    def rows(self) -> list[Row]:
        return [median_row(key, rounds) for key, rounds in self._rounds.items()]


def median_row(key: Key, rounds: Iterable[PhaseRate]) -> Row:
    columns = list(zip(*rounds, strict=True))
    rate, cpu, p50, p99, busy = (middle(column) for column in columns)
    assert rate is not None
    assert p50 is not None
    part, server, place, width, phase = key
    each = [round(one, 1) for one in columns[0]]
    return Row(part, server, place, width, phase, rate, cpu, p50, p99, busy, each)


def middle(values: Iterable[float | None]) -> float | None:
    """Return the median, to three places: more than a table shows, and no more than a file
    keeps."""
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 3) if known else None


def find(rows: Iterable[Row], **wanted: object) -> Row | None:
    for row in rows:
        if all(getattr(row, name) == value for name, value in wanted.items()):
            return row
    return None


@dataclass(frozen=True)
class Circumstances:
    """Where and how a run was taken. `load` is that of the last minute, before and after."""

    command: str
    taken: str
    machine: str
    durability: dict[str, str]
    body_bytes: int
    rounds: int
    seconds: float
    load: tuple[float, float]


def machine() -> str:
    """Return processor, memory, kernel and Python, in a line."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} processors ({model}), {memory:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}"
    )


class Stopwatch:
    """Notes what only a run's beginning and end can tell."""

    def __init__(self, program: str) -> None:
        self._command = " ".join([program, *sys.argv[1:]])
        self._started = time.time()
        self._load = os.getloadavg()[0]

    def circumstances(self, durability: dict[str, str], size: int, rounds: int) -> Circumstances:
        return Circumstances(
            self._command, time.strftime("%Y-%m-%d", time.localtime(self._started)), machine(),
            durability, size, rounds, round(time.time() - self._started),
            (round(self._load, 1), round(os.getloadavg()[0], 1)),
        )  # fmt: skip


def write_json(path: Path, circumstances: Circumstances, rows: Iterable[Row]) -> None:
    """Write the results, with a line for each row."""
    lines = ",\n".join(json.dumps(asdict(row)) for row in rows)
    path.write_text(f'{{"run": {json.dumps(asdict(circumstances))},\n"rows": [\n{lines}\n]}}\n')


def read_json(path: Path) -> tuple[Circumstances, list[Row]]:
    found = json.loads(path.read_text())
    run = Circumstances(**{**found["run"], "load": tuple(found["run"]["load"])})
    return run, [Row(**row) for row in found["rows"]]
