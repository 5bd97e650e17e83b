"""Cuts of a run, and what does not hold after them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tests.crash.enumeration.clock import determined
from tests.crash.enumeration.disk import Said
from tests.crash.enumeration.interference import Interference
from tests.crash.enumeration.rows import Row
from tests.crash.enumeration.runs import play
from tests.crash.enumeration.scene import Scene
from tests.crash.enumeration.states import DiskState, states_of
from tests.crash.fifo.ledger import FifoLedger, FifoPromises
from tests.crash.fifo.plays import PLAYS
from tests.crash.fifo.restart import FifoRestarts

MOST_RUNS = 500


def cuts_of(scene: Scene) -> Iterator[tuple[int, DiskState, FifoPromises]]:
    """Yield each state that a cut of a run leaves, after which event, and what was promised."""
    ledger, told, promises = FifoLedger(), 0, FifoLedger().freeze()
    for number, state in states_of(scene.disk, scene.since):
        if told < number:
            for event in scene.disk.events[told:number]:
                if isinstance(event, Said):
                    event.fact(ledger)
            told, promises = number, ledger.freeze()
        yield number, state, promises


def enumerate_play(
    folder: Path, name: str, states: int, interference: Interference | None = None
) -> tuple[int, list[str]]:
    """Run a play until it has left that many different states with what was promised in them.
    Returns how many, and what does not hold."""
    seen: set[tuple[DiskState, FifoPromises]] = set()
    found: list[str] = []
    with closing(FifoRestarts(folder / "state")) as restarts:
        for number in range(MOST_RUNS):
            scene = play(folder / "run", Row(name, PLAYS[name]), number, interference)
            with determined(restarts.clock):
                for event, state, promises in cuts_of(scene):
                    if (state, promises) in seen:
                        continue
                    seen.add((state, promises))
                    where = f"{name}, run {number}, cut after event {event}"
                    found += [f"{where}: {what}" for what in restarts.faults(state, promises)]
            if len(seen) >= states or found:
                break
    return len(seen), found
