"""Two checkouts of MQ side by side: what a change brings.

    git worktree add /tmp/before COMMIT
    python benchmarks/compare.py /tmp/before . [FOLDER ...]

Starts the server of both, lets them take turns, the first one second in every other round, and
prints the medians of the rounds and of their ratios. A checkout that has a `.venv` is run with it,
another one with this Python. FOLDER as for `bench.py`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
import uvloop
from bench import numbers
from disks import folders
from phases import measure, measure_batches
from report import milliseconds, number, table
from results import Results, Stopwatch, write_json
from servers import Target, more_descriptors, running_mq

from mq.ctl.bench.phases import PhaseRate, Rates

NAMES = ("before", "after")


class Step(NamedTuple):
    """One thing to measure, on both checkouts in turn."""

    part: str
    connections: int
    run: Callable[[Target], Rates]


def steps(
    messages: int, connections: Sequence[int], batch_connections: Sequence[int], body: bytes
) -> Iterator[Step]:
    for count in connections:
        total = messages if count > 1 else max(1, messages // 10)
        yield Step("requests", count, partial(run_one, measure, total, count, body))
    for count in batch_connections:
        yield Step("batches", count, partial(run_one, measure_batches, messages, count, body))


def run_one(
    measured: Callable[[Target, int, int, bytes], Coroutine[object, None, Rates]],
    messages: int, connections: int, body: bytes, target: Target,
) -> Rates:  # fmt: skip
    return uvloop.run(measured(target, messages, connections, body))


def run_round(
    turn: int, place: str, targets: Sequence[Target], all_steps: Sequence[Step], found: Results
) -> None:
    for part, count, run in all_steps:
        for target in targets if turn % 2 == 0 else reversed(targets):
            found.add(part, target.name, place, count, run(target))


def comparison(found: Results) -> str:
    head = ["", "", "connections", "", "before, messages/s", "after", "ratio", "of the rounds",
            "CPU before, µs", "after", "ratio", "p50 before, ms", "after", "p99 before, ms",
            "after"]  # fmt: skip
    lines = []
    for row in found.rows():
        if row.server != NAMES[0]:
            continue
        part, place, width, phase = row.part, row.place, row.width, row.phase
        before, after = (found.rounds((part, name, place, width, phase)) for name in NAMES)
        rates = ratios(before, after, lambda rate: rate.per_second)
        costs = ratios(before, after, lambda rate: rate.cpu_us or 0.0)
        lines.append([
            part, place, width, phase,
            *(number(middle(each, "per_second")) for each in (before, after)),
            f"{statistics.median(rates):.2f}", f"{min(rates):.2f} to {max(rates):.2f}",
            *(number(middle(each, "cpu_us")) for each in (before, after)),
            f"{statistics.median(costs):.2f}",
            *(milliseconds(middle(each, "p50_ms")) for each in (before, after)),
            *(milliseconds(middle(each, "p99_ms")) for each in (before, after)),
        ])  # fmt: skip
    return table(head, lines)


def ratios(
    before: Sequence[PhaseRate], after: Sequence[PhaseRate], of: Callable[[PhaseRate], float]
) -> list[float]:
    return [of(second) / of(first) for first, second in zip(before, after, strict=True)]


def middle(rounds: Sequence[PhaseRate], name: str) -> float:
    return float(statistics.median(getattr(each, name) for each in rounds))


@click.command()
@click.argument("before", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("after", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("roots", nargs=-1, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--rounds", default=5, show_default=True)
@click.option("--messages", default=3000, show_default=True, help="Of a phase.")
@click.option("--size", default=256, show_default=True, help="Bytes of a body.")
@click.option("--connections", default="1,64", show_default=True, callback=numbers)
@click.option("--batch-connections", default="8", show_default=True, callback=numbers)
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write what was found there.")
def main(*, before: Path, after: Path, roots: tuple[Path, ...], rounds: int, messages: int,
         size: int, connections: list[int], batch_connections: list[int], file: Path | None
         ) -> None:  # fmt: skip
    """What a change brings: two checkouts, paired in each round."""
    more_descriptors()
    watch, found, body = Stopwatch("benchmarks/compare.py"), Results(), b"x" * size
    checkouts = dict(zip(NAMES, (before.resolve(), after.resolve()), strict=True))
    all_steps = list(steps(messages, connections, batch_connections, body))
    with folders(roots) as places:
        for turn in range(rounds):
            for place, folder in places.items():
                with (
                    running_mq(folder, name=NAMES[0], checkout=checkouts[NAMES[0]]) as first,
                    running_mq(folder, name=NAMES[1], checkout=checkouts[NAMES[1]]) as second,
                ):
                    run_round(turn, place, (first, second), all_steps, found)
    run = watch.circumstances({}, size, rounds)
    print(comparison(found))
    print(f"\n{run.command}: before is {checkouts['before']}, after {checkouts['after']}.\n"
          f"{run.machine}; load {run.load[0]} at the start, {run.load[1]} at the end.")  # fmt: skip
    if file is not None:
        write_json(file, run, found.rows())


if __name__ == "__main__":
    main()
