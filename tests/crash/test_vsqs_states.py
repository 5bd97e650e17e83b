"""VSQS: every state that a power cut can leave, opened again: what returned holds.

The disk, its recorder and its states are those of the enumeration for MQ.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.crash.enumeration.disk import RecordedDisk, Said
from tests.crash.enumeration.recorder import MODERN, OLD, Abilities, RecordedFiles
from tests.crash.enumeration.restart import lay_out
from tests.crash.enumeration.states import DiskState, states_of
from tests.support.figures import PrintFigures
from tests.support.vsqs import Clock
from vsqs.queue import Queue

LONG_SECONDS, SHORT_SECONDS = 1e6, 0.001
MOST_RUNS = 1000
CUT_EVERY = 8
"""One in this many states has its restart cut too."""

HEAD = f"{'vsqs':<20}{'runs':>6}{'states':>8}{'restarts':>10}"

FILE_SYSTEMS = {"modern": MODERN, "old": OLD}


class VsqsLedger:
    """What callers asked for, and what returned to them."""

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        self.published: dict[str, bytes] = {}
        self.taken: set[str] = set()
        self.deleted: set[str] = set()

    def sends(self, body: bytes) -> None:
        self.sent.add(body)

    def has_published(self, message_id: str, body: bytes) -> None:
        self.published[message_id] = body

    def has_taken(self, message_id: str) -> None:
        self.taken.add(message_id)

    def deletes(self, message_id: str) -> None:
        """Note a deletion: from now on the message may be there or not."""
        self.published.pop(message_id, None)
        self.taken.discard(message_id)

    def has_deleted(self, message_id: str) -> None:
        self.deleted.add(message_id)


Fact = Callable[[VsqsLedger], None]


class Play:
    """Two processes on one queue, and what chance lets them do."""

    def __init__(self, root: Path, abilities: Abilities, number: int) -> None:
        self.disk = RecordedDisk(root)
        self._known = VsqsLedger()
        self._chance = random.Random(number)
        self._clock = Clock()
        queues = [
            Queue(root / "queue", files=RecordedFiles(self.disk, abilities), clock_ns=self._clock)
            for _ in range(2)
        ]
        for _ in range(self._chance.randrange(4, 12)):
            self._clock.go(self._chance.choice([0.01, 0.01, 2, -3600]))
            act = self._chance.choice([self._publish, self._publish, self._receive, self._delete])
            act(self._chance.choice(queues))
        for queue in queues:
            queue.close()

    def _say(self, fact: Fact) -> None:
        fact(self._known)
        self.disk.say(fact)

    def _publish(self, queue: Queue) -> None:
        body = b"%d " % len(self._known.sent) * self._chance.choice([1, 3000])
        self._say(lambda ledger: ledger.sends(body))
        message_id = queue.publish(body)
        self._say(lambda ledger: ledger.has_published(message_id, body))

    def _receive(self, queue: Queue) -> None:
        seconds = self._chance.choice([LONG_SECONDS, LONG_SECONDS, SHORT_SECONDS])
        message_id, body = queue.receive(seconds, timeout=0)
        if message_id is not None:
            assert self._known.published[message_id] == body
            if seconds == LONG_SECONDS:
                self._say(lambda ledger: ledger.has_taken(message_id))

    def _delete(self, queue: Queue) -> None:
        if self._known.published:
            message_id = self._chance.choice(sorted(self._known.published))
            self._say(lambda ledger: ledger.deletes(message_id))
            assert queue.delete(message_id)
            self._say(lambda ledger: ledger.has_deleted(message_id))


class OpenedQueue(NamedTuple):
    """What a process finds that opens the queue after the cut: ready messages, and all."""

    disk: RecordedDisk
    ready: dict[str, bytes]
    there: dict[str, bytes]
    left: list[str]


def open_again(
    state: DiskState, root: Path, abilities: Abilities, later_seconds: float
) -> OpenedQueue:
    """Open the queue again, sweep, and receive everything: at that time, and when all leases are
    over."""
    disk = lay_out(state, root)
    for new in (root / "queue").glob("*.new"):
        os.utime(new, times=(0, 0))
    clock = Clock()
    with Queue(root / "queue", files=RecordedFiles(disk, abilities), clock_ns=clock) as queue:
        ready = dict(_received(queue))
        clock.go(later_seconds)
        there = ready | dict(_received(queue))
    left = [path.name for path in (root / "queue").iterdir() if path.suffix == ".new"]
    return OpenedQueue(disk, ready, there, left)


def _received(queue: Queue) -> Iterator[tuple[str, bytes]]:
    last = -1
    while True:
        message_id, body = queue.receive(5 * LONG_SECONDS, timeout=0)
        if message_id is None or body is None:
            return
        assert int(message_id) > last
        last = int(message_id)
        yield message_id, body


def broken(ledger: VsqsLedger, opened: OpenedQueue) -> list[str]:
    """The promises that do not hold."""
    lost = [f"lost: {each}" for each in ledger.published.items() - opened.there.items()]
    back = [f"back: {each}" for each in ledger.deleted & opened.there.keys()]
    again = [f"given out again: {each}" for each in ledger.taken & opened.ready.keys()]
    torn = [f"torn: {each}" for each, body in opened.there.items() if body not in ledger.sent]
    return lost + back + again + torn + [f"not swept: {each}" for each in opened.left]


class Enumeration:
    """Plays, until they have left enough different states."""

    def __init__(self, folder: Path, abilities: Abilities) -> None:
        self._folder = folder
        self._abilities = abilities
        self._opened: dict[tuple[DiskState, float], OpenedQueue] = {}
        self.runs = 0
        self.states: set[DiskState] = set()
        self.restarts: set[DiskState] = set()

    def run(self, least: int) -> None:
        while len(self.states) < least:
            assert self.runs < MOST_RUNS
            root = self._folder / str(self.runs)
            root.mkdir(parents=True)
            self._check(Play(root, self._abilities, self.runs).disk)
            self.runs += 1

    def _check(self, disk: RecordedDisk) -> None:
        ledger, told = VsqsLedger(), 0
        for number, state in states_of(disk):
            for event in disk.events[told:number]:
                if isinstance(event, Said):
                    event.fact(ledger)
            told = number
            self.states.add(state)
            opened = self._open(state, later_seconds=10 * LONG_SECONDS)
            assert broken(ledger, opened) == [], (self.runs, number, state)
            if len(self.states) % CUT_EVERY == 0:
                for cut in states_of(opened.disk):
                    self.restarts.add(cut.state)
                    again = self._open(cut.state, later_seconds=20 * LONG_SECONDS)
                    # By then leases were over.
                    again = again._replace(ready={})
                    assert broken(ledger, again) == [], (self.runs, number, state, cut)

    def _open(self, state: DiskState, later_seconds: float) -> OpenedQueue:
        if (state, later_seconds) not in self._opened:
            opened = open_again(state, self._folder / "state", self._abilities, later_seconds)
            self._opened[state, later_seconds] = opened
        return self._opened[state, later_seconds]


@pytest.mark.parametrize("least", [60, pytest.param(1000, marks=pytest.mark.crash_long)])
@pytest.mark.parametrize("file_system", FILE_SYSTEMS)
def test_what_returned_holds_after_a_cut_anywhere(
    quick_folder: Path, file_system: str, least: int, print_figures: PrintFigures
) -> None:
    enumeration = Enumeration(quick_folder / f"{file_system} {least}", FILE_SYSTEMS[file_system])

    enumeration.run(least)

    states, restarts = len(enumeration.states), len(enumeration.restarts - enumeration.states)
    print_figures(HEAD, f"{file_system:<20}{enumeration.runs:>6}{states:>8}{restarts:>10}")
    assert restarts > least // CUT_EVERY
