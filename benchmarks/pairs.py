"""A shallow queue and a deep one, which take turns in every round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from report import number, table
from servers import Target

from mq.ctl.bench.phases import Rates

Pair = tuple[Rates, Rates]
"""What one round found in the shallow queue and in the deep one."""


def measure_pairs(
    targets: tuple[Target, Target], run_round: Callable[[Target], Rates], rounds: int
) -> list[Pair]:
    return [(run_round(targets[0]), run_round(targets[1])) for _ in range(rounds)]


def comparison(pairs: Sequence[Pair], without_server: Mapping[str, float] | None = None) -> str:
    """Return a table with a line for each phase: the medians of both, and of the rounds' ratios.
    `without_server` has the ratios of the file calls alone."""
    head = ["", "shallow/s", "deep/s", "rate", "CPU", *(["in C"] if without_server else [])]
    lines = []
    for phase in pairs[0][0]:
        both = [(shallow[phase], deep[phase]) for shallow, deep in pairs]
        rates = [statistics.median(each[at].per_second for each in both) for at in (0, 1)]
        rate = statistics.median(deep.per_second / shallow.per_second for shallow, deep in both)
        cost = statistics.median(
            (deep.cpu_us or 0) / (shallow.cpu_us or 1) for shallow, deep in both
        )
        line = [phase, *map(number, rates), f"{rate:.2f}", f"{cost:.2f}"]
        if without_server:
            line.append(f"{without_server[phase]:.2f}" if phase in without_server else "")
        lines.append(line)
    return table(head, lines)


def peak_mib(target: Target) -> float:
    """Return the peak memory of the target's first process, in MiB."""
    status = Path(f"/proc/{target.pids[0]}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
