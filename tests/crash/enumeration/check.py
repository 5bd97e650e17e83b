"""Every state of a run, restarted, against what clients were promised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.crash.enumeration.disk import RecordedDisk, Said
from tests.crash.enumeration.ledger import Ledger
from tests.crash.enumeration.promises import Outcome, Promises, violations
from tests.crash.enumeration.recorder import Abilities
from tests.crash.enumeration.restart import Restarts
from tests.crash.enumeration.states import DiskState, states_of


class Violation(NamedTuple):
    """A promise that does not hold after a cut."""

    event: int
    what: str
    state: DiskState | None


@dataclass
class CheckedCounts:
    """How much was enumerated. `states` are those that a cut of a run left, `restart_states` those
    that a cut of a restart added."""

    runs: int = 0
    cuts: int = 0
    states: set[DiskState] = field(default_factory=set)
    restart_states: set[DiskState] = field(default_factory=set)
    checks: int = 0


class Checker:
    """For runs on one kind of file system. A state is restarted once, whichever runs lead to it.

    Of every `cut_every` states one has its restart cut too, at each step, and the restart after
    that, up to `depth` times.
    """

    def __init__(
        self,
        root: Path,
        abilities: Abilities,
        max_receives: int = 0,
        cut_every: int = 1,
        depth: int = 3,
    ) -> None:
        self._restarts = Restarts(root, abilities, max_receives)
        self._max_receives = max_receives
        self._cut_every = cut_every
        self._depth = depth
        self._end: dict[DiskState, Outcome | str] = {}
        self._cuts: dict[DiskState, list[DiskState]] = {}
        self._ends: dict[tuple[DiskState, int], frozenset[Outcome | str]] = {}
        self._checked: dict[tuple[DiskState, Promises], list[str]] = {}
        self.clock = self._restarts.clock

    def close(self) -> None:
        self._restarts.close()

    def check(self, disk: RecordedDisk, since: int, counts: CheckedCounts) -> Iterator[Violation]:
        """Check every state of a recorded run, from event `since` on, against what was promised at
        that moment."""
        ledger = Ledger(self._max_receives)
        told = 0
        promises = ledger.freeze()
        counts.runs += 1
        counts.cuts += len(disk.events) - since + 1
        for number, state in states_of(disk, since):
            if told < number:
                for event in disk.events[told:number]:
                    if isinstance(event, Said):
                        event.fact(ledger)
                told, promises = number, ledger.freeze()
            counts.states.add(state)
            found = self._checked.get((state, promises))
            if found is None:
                depth = 0 if len(counts.states) % self._cut_every else self._depth
                found = self._checked[state, promises] = []
                for end in self._all_ends(state, depth, counts):
                    counts.checks += 1
                    found += [end] if isinstance(end, str) else violations(promises, end)
            # Another run may have come to the same: what is broken there is broken here too.
            yield from (Violation(number, what, state) for what in found)
        yield from (Violation(told, what, None) for what in ledger.broken)

    def _all_ends(
        self, state: DiskState, depth: int, counts: CheckedCounts
    ) -> frozenset[Outcome | str]:
        """What the restart comes to if nothing cuts it, and if it is cut anywhere, and again."""
        known = self._ends.get((state, depth))
        if known is not None:
            return known
        cuts = self._cuts_within(state) if depth else []
        ends = {self._end_of(state)}
        self._ends[state, depth] = frozenset(ends)
        if depth:
            counts.restart_states.update(cuts)
            for cut in cuts:
                ends |= self._all_ends(cut, depth - 1, counts)
            self._ends[state, depth] = frozenset(ends)
        return self._ends[state, depth]

    def _end_of(self, state: DiskState) -> Outcome | str:
        """What the restart comes to."""
        if state not in self._end:
            self._restart(state)
        return self._end[state]

    def _cuts_within(self, state: DiskState) -> list[DiskState]:
        """What a cut within the restart leaves. To work that out takes as long as the restart."""
        if state not in self._cuts:
            cuts = dict.fromkeys(cut.state for cut in states_of(self._restart(state)))
            cuts.pop(state, None)
            self._cuts[state] = list(cuts)
        return self._cuts[state]

    def _restart(self, state: DiskState) -> RecordedDisk:
        """Note how it ends; returns the disk with what it did."""
        restarted = self._restarts.restart(state)
        self._end[state] = restarted.outcome or f"no restart: {restarted.refusal}"
        return restarted.disk
