"""What a message costs by the size of its body.

    python benchmarks/body_sizes.py ROOT [CHECKOUT ...] [--sizes 256,100000]

The sizes take turns within each round, and so do the servers of several checkouts (`compare.py`).
Prints messages a second, MiB a second, and the server's processor time for a message, medians of
the rounds; for each further checkout also the median of the ratios of its rates to the first's.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from pathlib import Path

import click
import uvloop
from phases import measure
from report import number, table
from servers import more_descriptors, running_mq

from mq.ctl.bench.phases import PhaseRate, median_of

_MIB = 1024 * 1024
_BYTES_IN_A_PHASE = 512 * _MIB
"""A phase of large bodies has fewer messages, so that a disk of some GiB is enough."""

Found = dict[tuple[int, str], dict[int, list[PhaseRate]]]
"""The rounds of each size and phase, by the number of the checkout."""


def measure_rounds(
    root: Path, checkouts: list[Path], sizes: list[int], rounds: int, *, messages: int, width: int
) -> Found:
    found: Found = defaultdict(lambda: defaultdict(list))
    for _ in range(rounds):
        for size in sizes:
            few = max(width, min(messages, _BYTES_IN_A_PHASE // max(size, 1)))
            for place, checkout in enumerate(checkouts):
                with running_mq(root, checkout=checkout) as target:
                    rates = uvloop.run(measure(target, few, width, b"x" * size))
                for phase, rate in rates.items():
                    found[size, phase][place].append(rate)
    return found


def report(found: Found, checkouts: list[Path]) -> str:
    lines = []
    for (size, phase), by_place in found.items():
        for place, rounds in by_place.items():
            rate = median_of(rounds)
            pairs = zip(rounds, by_place[0], strict=True)
            ratio = statistics.median(one.per_second / first.per_second for one, first in pairs)
            lines.append([
                str(size), phase, str(checkouts[place]), number(rate.per_second),
                number(rate.per_second * size / _MIB), number(rate.cpu_us or 0),
                f"{ratio:.2f}",
            ])  # fmt: skip
    return table(["bytes", "", "server", "messages/s", "MiB/s", "CPU, µs", "rate"], lines)


@click.command()
@click.argument("root", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("checkouts", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--sizes", default="256,16384,100000,200000,500000,1000000", show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--messages", default=3000, show_default=True, help="Of a phase, at most.")
@click.option("--connections", default=64, show_default=True)
def main(*, root: Path, checkouts: tuple[Path, ...], sizes: str, rounds: int, messages: int,
         connections: int) -> None:  # fmt: skip
    """Requests with bodies of several sizes, paired in each round."""
    more_descriptors()
    those = [*checkouts] or [Path(__file__).parent.parent]
    numbers = [int(size) for size in sizes.split(",")]
    found = measure_rounds(root, those, numbers, rounds, messages=messages, width=connections)
    print(report(found, those))


if __name__ == "__main__":
    main()
