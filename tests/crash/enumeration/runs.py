"""Rows are run until they have left enough different states."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from structlog.testing import capture_logs

from tests.crash.enumeration.acting import Chance
from tests.crash.enumeration.check import CheckedCounts, Checker, Violation
from tests.crash.enumeration.clock import StoppedClock, determined
from tests.crash.enumeration.disk import Said
from tests.crash.enumeration.interference import Interference
from tests.crash.enumeration.rows import Row
from tests.crash.enumeration.scene import Scene
from tests.crash.enumeration.states import DiskState

MOST_RUNS = 2_000
SHOWN_EVENTS = 40


class Effort(NamedTuple):
    """How many different states of a row are wanted; of how many one has its restart cut, and how
    often again."""

    states: int
    cut_every: int
    depth: int


SHORT = Effort(states=100, cut_every=10, depth=1)
LONG = Effort(states=500, cut_every=3, depth=2)


class Enumerated(NamedTuple):
    """What came of a row."""

    row: str
    counts: CheckedCounts
    violations: list[str]

    def line(self) -> str:
        counts = self.counts
        return (
            f"{self.row:<42}{counts.runs:>6}{counts.cuts:>8}{len(counts.states):>8}"
            f"{len(counts.restart_states - counts.states):>10}{counts.checks:>9}"
            f"{len(self.violations):>12}"
        )


HEAD = (
    f"{'row':<42}{'runs':>6}{'cuts':>8}{'states':>8}{'restarts':>10}{'checks':>9}{'violations':>12}"
)


def enumerate_row(folder: Path, row: Row, effort: Effort) -> Enumerated:
    """Run a row until it has left that many states; each is restarted and checked."""
    counts, found = CheckedCounts(), []
    checker = Checker(
        folder / "state", row.abilities, row.max_receives, effort.cut_every, effort.depth
    )
    with closing(checker):
        for number in range(MOST_RUNS):
            scene = play(folder / "run", row, number)
            with determined(checker.clock):
                violations = list(checker.check(scene.disk, scene.since, counts))
            found += [describe(row, number, scene, violation) for violation in violations]
            if len(counts.states) >= effort.states or found:
                break
    return Enumerated(row.name, counts, found)


def play(root: Path, row: Row, number: int, interference: Interference | None = None) -> Scene:
    """The scene when all is done and all servers are closed. Run `number` is always the same."""
    shutil.rmtree(root, ignore_errors=True)
    clock, interference = StoppedClock(), interference or Interference()
    with determined(clock), capture_logs(), pytest.MonkeyPatch.context() as patch:
        interference.prepare(patch)
        scene = Scene(root, clock, row.abilities, row.max_receives, interference)
        try:
            row.play(scene, Chance(number))
        finally:
            scene.close()
    return scene


def describe(row: Row, number: int, scene: Scene, violation: Violation) -> str:
    """The promise that is broken, the state, and what had been done before the cut."""
    lines = [f"{row.name}, run {number}, cut after event {violation.event}: {violation.what}"]
    if violation.state is not None:
        lines += [f"    {line}" for line in _lines_of(violation.state)]
    first = max(violation.event - SHOWN_EVENTS, 0)
    for at, event in enumerate(scene.disk.events[first : violation.event], start=first):
        shown = _shown(event.fact) if isinstance(event, Said) else str(event)
        lines.append(f"    {at}: {shown[:160]}")
    return "\n".join(lines)


def _shown(fact: Callable[..., None]) -> str:
    function = getattr(fact, "func", fact)
    return f"{function.__name__} {getattr(fact, 'keywords', {})}"


def _lines_of(state: DiskState) -> Iterator[str]:
    yield " ".join(state.folders)
    for file in state.files:
        yield f"{' = '.join(file.paths)}: {len(file.data)} bytes, {file.data[:16]!r}"
