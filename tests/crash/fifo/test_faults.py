"""Each file call of a gateway fails once, while FIFO queues are used and clients try again: what
was answered holds after a restart."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash.enumeration.clock import determined
from tests.crash.enumeration.disk import RecordedDisk, SyncFailed
from tests.crash.enumeration.interference import Interference
from tests.crash.enumeration.recorder import Abilities, RecordedFiles
from tests.crash.enumeration.rows import Row
from tests.crash.enumeration.runs import play
from tests.crash.fifo.cuts import cuts_of
from tests.crash.fifo.plays import PLAYS
from tests.crash.fifo.restart import FifoRestarts
from tests.support.faults import SYNCS
from tests.support.figures import PrintFigures

CODES = [errno.EIO, errno.ENOSPC]
MOST_SHOWN = 3
SHORT_STRIDE = 8
SHORT_RUNS, LONG_RUNS = 1, 10


UNNOTED = {("dead letters", "set_attribute"), ("move back", "set_attribute")}
"""A dead letter goes on its way although the disk had no room for the note of where it came from.
Then a restart within five minutes forgets that it was sent; docs/sqs.md says so."""


class OneFault(Interference):
    """Call number `at` of all, from the beginning of the run, fails. `calls` counts them."""

    def __init__(self, at: int = -1, code: int = 0) -> None:
        super().__init__()
        self.calls = 0
        self.name = ""
        self._has_begun = False
        self._files: list[RecordedFiles] = []
        self._at = at
        self._code = code

    def begin(self) -> None:
        super().begin()
        self.calls = 0
        self._has_begun = True

    def files(self, disk: RecordedDisk, abilities: Abilities) -> RecordedFiles:
        self._files.append(_FailingOnce(disk, abilities, self))
        return self._files[-1]

    def strike(self, files: RecordedFiles, name: str) -> None:
        """Fail if this is the call. Of a sync of everything that fails each process learns at its
        next sync."""
        self.calls += 1
        if self.calls - 1 != self._at or not self._has_begun:
            return
        self.name = name
        if name in SYNCS:
            for each in self._files if name == "sync_file_system" else [files]:
                each.failing_syncs += 1
        else:
            raise OSError(self._code, os.strerror(self._code))


class _FailingOnce(RecordedFiles):
    def __init__(self, disk: RecordedDisk, abilities: Abilities, fault: OneFault) -> None:
        super().__init__(disk, abilities)
        self._fault = fault

    def _step(self, call: str) -> None:
        super()._step(call)
        self._fault.strike(self, call)

    def _fail_sync(self, fd: int | None) -> None:
        """Leave pages that count as clean. Other descriptors of this process sync as before: the
        kernel tells each of its own file."""
        if self.failing_syncs:
            self.failing_syncs -= 1
            self.disk.note(SyncFailed(self.disk.inode(fd)))
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def faults_of(folder: Path, name: str, runs: int, stride: int) -> Iterator[str]:
    """Yield for each call what does not hold after it has failed; empty if all does."""
    row = Row(name, PLAYS[name])
    with closing(FifoRestarts(folder / "state")) as restarts:
        for number in range(runs):
            calm = OneFault()
            play(folder / "run", row, number, calm)
            for at in range(number % stride, calm.calls, stride):
                fault = OneFault(at, CODES[at // stride % len(CODES)])
                scene = play(folder / "run", row, number, fault)
                where = f"{name}, run {number}, {fault.name} fails at call {at} of {calm.calls}"
                end = len(scene.disk.events)
                with determined(restarts.clock):
                    if (name, fault.name) in UNNOTED:
                        continue
                    found = [
                        what
                        for event, state, promises in cuts_of(scene)
                        if event == end
                        for what in restarts.faults(state, promises)
                    ]
                yield f"{where}: {found[:MOST_SHOWN]}" if found else ""


@pytest.mark.parametrize("name", PLAYS)
def test_no_failing_call_breaks_a_promise_of_a_fifo_queue(
    name: str, quick_folder: Path, print_figures: PrintFigures
) -> None:
    _check(list(faults_of(quick_folder, name, SHORT_RUNS, SHORT_STRIDE)), name, print_figures)


@pytest.mark.crash_long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", PLAYS)
def test_no_failing_call_breaks_a_promise_of_a_fifo_queue_in_long_runs(
    name: str, quick_folder: Path, print_figures: PrintFigures
) -> None:
    _check(list(faults_of(quick_folder, name, LONG_RUNS, 1)), name, print_figures)


def _check(outcomes: list[str], name: str, print_figures: PrintFigures) -> None:
    print_figures("File calls of FIFO queues that failed in turn", f"{len(outcomes):>6} {name}")
    assert [each for each in outcomes if each][:MOST_SHOWN] == []
    assert outcomes
