"""VSQS: a kill and a power cut at every file call; what returned holds, and each sync is needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.crash.power import Disk, PowerFiles
from tests.support.vsqs import names_in
from vsqs.names import Name, parse_name
from vsqs.queue import Queue

KEPT = (0.0, 0.3, 0.6, 1.0)
"""Which part of the changes since the last sync a cut leaves."""


class VsqsWithoutSync(PowerFiles):
    """Leaves out the sync of that number."""

    def __init__(self, disk: Disk, left_out: int) -> None:
        super().__init__(disk)
        self._left_out = left_out
        self._syncs = 0

    def _watched(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        if name == "sync":
            self._syncs += 1
            if self._syncs == self._left_out:
                return None
        return super()._watched(name, call, *arguments)


class VsqsPromises:
    """What returned, and whether a folder keeps it."""

    def __init__(self) -> None:
        self.is_made = False
        self.sent: set[bytes] = set()
        self.there: dict[str, bytes] = {}
        self.taken: set[str] = set()
        self.deleted: set[str] = set()

    def work(self, folder: Path, files: PowerFiles) -> None:
        """A queue's day: every operation, and every way of a message."""
        queue = Queue(folder, files=files)
        self.is_made = True
        for body in (b"one", b"two", b"three"):
            self.sent.add(body)
            self.there[queue.publish(body)] = body
        first, second, third = self.there
        self._receive(queue, first)
        self._delete(queue, first)
        self._delete(queue, third)
        self._receive(queue, second, visibility_seconds=0)
        self._receive(queue, second)
        queue.close()

    def _receive(self, queue: Queue, expected: str, visibility_seconds: float = 1000) -> None:
        assert queue.receive(visibility_seconds)[0] == expected
        if visibility_seconds:
            self.taken.add(expected)

    def _delete(self, queue: Queue, message_id: str) -> None:
        del self.there[message_id]
        assert queue.delete(message_id)
        self.deleted.add(message_id)

    def broken(self, folder: Path) -> list[str]:
        """Those that the folder does not keep."""
        if not folder.exists():
            return ["the folder is gone"] if self.is_made else []
        found = [f"no message: {name}" for name in names_in(folder) if parse_name(name) is None]
        messages = {name: folder / str(name) for name in map(parse_name, names_in(folder)) if name}
        published = {str(name.time): name for name in messages if not name.is_new}
        found += [f"lost: {each}" for each in self.there.keys() - published.keys()]
        found += [f"back: {each}" for each in self.deleted & published.keys()]
        found += [
            f"given out again: {each}"
            for each in self.taken & published.keys()
            if not published[each].state
        ]
        for message_id, name in published.items():
            expected = {self.there[message_id]} if message_id in self.there else self.sent
            if messages[name].read_bytes() not in expected:
                found.append(f"torn: {name}")
        return found


class VsqsCut(NamedTuple):
    """Where the power went, which promises that broke, and whether the day was over."""

    calls: int
    kept: float
    broken: list[str]
    is_over: bool


CutAt = Callable[[int, float, int], VsqsCut]


@pytest.fixture
def cut_at(tmp_path: Path) -> Iterator[CutAt]:
    """Runs a queue's day until this many changes are made, and cuts the power."""
    disks: list[Disk] = []

    def run(calls: int, kept: float, left_out: int) -> VsqsCut:
        place = tmp_path / str(len(disks))
        place.mkdir()
        disk = Disk(place / "graveyard")
        disks.append(disk)
        files = VsqsWithoutSync(disk, left_out)
        files.calls_left = calls
        promises = VsqsPromises()
        is_over = False
        with suppress(OSError):
            promises.work(place / "queue", files)
            is_over = True
        disk.cut(kept)
        return VsqsCut(calls, kept, promises.broken(place / "queue"), is_over)

    yield run
    for disk in disks:
        disk.close()


def cuts_of_a_day(cut_at: CutAt, left_out: int = 0) -> Iterator[VsqsCut]:
    calls, is_over = 0, False
    while not is_over:
        for kept in KEPT:
            cut = cut_at(calls, kept, left_out)
            is_over = cut.is_over
            yield cut
        calls += 1


def test_what_returned_survives_a_cut_at_every_call(cut_at: CutAt) -> None:
    cuts = list(cuts_of_a_day(cut_at))

    assert [cut for cut in cuts if cut.broken] == []
    assert len(cuts) > 25 * len(KEPT)


@pytest.mark.parametrize("left_out", [number for number in range(1, 13) if number != 11])
def test_each_sync_is_needed(cut_at: CutAt, left_out: int) -> None:
    """One for the folder, six for three publishes, and one each for three receives and two deletes.
    The eleventh is that of a receive whose timeout is over at once."""
    assert any(cut.broken for cut in cuts_of_a_day(cut_at, left_out))


def test_there_are_no_other_syncs(tmp_path: Path) -> None:
    files = PowerFiles(Disk(tmp_path / "graveyard"))

    VsqsPromises().work(tmp_path / "queue", files)

    assert files.calls["sync"] == 12


def test_a_kill_at_any_step_of_publish_leaves_at_most_a_new_that_is_swept(tmp_path: Path) -> None:
    folder = tmp_path / "queue"
    Queue(folder).close()
    left: set[str] = set()

    for calls in range(100):
        files = PowerFiles(Disk(tmp_path / str(calls)))
        files.calls_left = calls
        try:
            queue = Queue(folder, files=files)
            queue.publish(b"body")
            break
        except OSError:
            pass
        states = {name.state for name in map(parse_name, names_in(folder)) if name}
        left |= states
        for name in names_in(folder):
            if name.endswith(".new"):
                os.utime(folder / name, times=(0, 0))
        with Queue(folder) as after:
            assert after.receive(timeout=0)[1] in (None, b"body")
        assert not list(folder.glob("*.new"))
        for path in folder.iterdir():
            path.unlink()

    assert left == {"new", ""}
    assert isinstance(parse_name(names_in(folder)[0]), Name)
