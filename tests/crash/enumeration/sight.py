"""Whether the enumeration sees that something was taken out."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.crash.enumeration.check import CheckedCounts, Checker
from tests.crash.enumeration.clock import determined
from tests.crash.enumeration.interference import Interference
from tests.crash.enumeration.recorder import Abilities
from tests.crash.enumeration.rows import Row
from tests.crash.enumeration.runs import play
from tests.crash.enumeration.scene import Scene

MOST_STATES = 10**9

Run = tuple[Row, int]


class Sight:
    """Plays runs with something taken out, and checks them. Close it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._checkers: dict[tuple[Abilities, int], Checker] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def play(self, run: Run, interference: Interference) -> Scene:
        return play(self._folder / "run", *run, interference)

    def where_seen(
        self, make: Callable[[], Interference], rows: Iterable[Row], runs: int
    ) -> dict[str, list[Run]]:
        """The runs that come by each site, the first of each row first."""
        found: dict[str, list[Run]] = defaultdict(list)
        for number, row in itertools.product(range(runs), rows):
            interference = make()
            self.play((row, number), interference)
            for site in interference.seen:
                found[site].append((row, number))
        return found

    def violation(self, run: Run, interference: Interference) -> str | None:
        """What is broken in a run; None if nothing is."""
        return self.violation_in(self.play(run, interference), run)

    def violation_in(self, scene: Scene, run: Run) -> str | None:
        """What is broken in a run that was played."""
        checker = self._checker_for(run[0])
        with determined(checker.clock):
            for violation in checker.check(scene.disk, scene.since, CheckedCounts()):
                return f"{run[0].name}, run {run[1]}: {violation.what}"
        return None

    def catches(self, make: Callable[[], Interference], runs: Iterable[Run]) -> str | None:
        """The first violation in any of the runs."""
        return next(filter(None, (self.violation(run, make()) for run in runs)), None)

    def _checker_for(self, row: Row) -> Checker:
        key = row.abilities, row.max_receives
        if key not in self._checkers:
            checker = Checker(self._folder / "state", *key, cut_every=MOST_STATES)
            self._checkers[key] = checker
            self._stack.callback(checker.close)
        return self._checkers[key]
