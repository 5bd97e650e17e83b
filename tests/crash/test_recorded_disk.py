"""What the enumeration rests on: the recorder sees all that happens, and a cut leaves just what the
crash model says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.enumeration.disk import RecordedDisk
from tests.crash.enumeration.recorder import RecordedFiles
from tests.crash.enumeration.rows import ROWS, Row
from tests.crash.enumeration.runs import play
from tests.crash.enumeration.states import last_state_of, states_of
from vsqs.queue import Queue


class Recorded:
    """A folder with the folders `one` and `two`, durable, and their descriptors."""

    def __init__(self, root: Path) -> None:
        for name in ("one", "two"):
            (root / name).mkdir(parents=True)
        self.disk = RecordedDisk(root)
        self.files = RecordedFiles(self.disk)
        self.one = self.files.open_folder(None, str(root / "one"))
        self.two = self.files.open_folder(None, str(root / "two"))

    def make(self, name: str, body: bytes) -> int:
        """A file in `one`, whose data is not synced; returns it open."""
        fd = self.files.open_unnamed(self.one, 0o600)
        self.files.write(fd, body)
        self.files.link(fd, self.one, name)
        return fd

    def left(self) -> set[frozenset[tuple[str, bytes]]]:
        """All that a cut may leave now: names and contents."""
        last = len(self.disk.events)
        return {
            frozenset((path, file.data) for file in cut.state.files for path in file.paths)
            for cut in states_of(self.disk, last)
        }


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    made = Recorded(tmp_path / "recorded")
    yield made
    os.close(made.one)
    os.close(made.two)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_recorder_knows_what_is_in_the_folder(quick_folder: Path, row: Row) -> None:
    scene = play(quick_folder / "run", row, 0)

    assert last_state_of(RecordedDisk(scene.root)).folders == last_state_of(scene.disk).folders
    assert [
        (file.paths, file.data, file.attributes)
        for file in last_state_of(RecordedDisk(scene.root)).files
    ] == [(file.paths, file.data, file.attributes) for file in last_state_of(scene.disk).files]


def test_nothing_is_durable_before_a_sync(recorded: Recorded) -> None:
    os.close(recorded.make("file", b"body"))

    torn = {frozenset({("one/file", data)}) for data in (b"body", b"", b"bo", bytes(4))}
    assert recorded.left() == torn | {frozenset()}


def test_synced_file_keeps_its_data_and_the_name_that_it_was_given(recorded: Recorded) -> None:
    fd = recorded.make("file", b"body")
    recorded.files.sync(fd)
    os.close(fd)

    assert recorded.left() == {frozenset({("one/file", b"body")})}


def test_synced_file_may_be_at_the_name_that_it_was_moved_from(recorded: Recorded) -> None:
    fd = recorded.make("file", b"body")
    recorded.files.rename(recorded.one, "file", recorded.two, "file")
    recorded.files.sync(fd)
    os.close(fd)

    assert recorded.left() == {
        frozenset({("one/file", b"body")}), frozenset({("two/file", b"body")}),
    }  # fmt: skip


def test_synced_folder_keeps_the_name_and_not_the_data(recorded: Recorded) -> None:
    os.close(recorded.make("file", b"body"))
    recorded.files.sync(recorded.one)

    assert frozenset() not in recorded.left()
    assert frozenset({("one/file", b"")}) in recorded.left()


def test_either_folder_makes_a_rename_durable_and_all_before_it(recorded: Recorded) -> None:
    for name in ("earlier", "file"):
        fd = recorded.make(name, b"")
        recorded.files.sync(fd)
        os.close(fd)
    recorded.files.rename(recorded.one, "file", recorded.two, "file")
    recorded.files.sync(recorded.two)

    assert recorded.left() == {frozenset({("one/earlier", b""), ("two/file", b"")})}


def test_folder_without_a_change_makes_nothing_durable(recorded: Recorded) -> None:
    os.close(recorded.make("file", b""))
    recorded.files.sync(recorded.two)

    assert frozenset() in recorded.left()


def test_attribute_is_durable_with_its_file_and_so_is_all_before_it(recorded: Recorded) -> None:
    fd = recorded.make("file", b"")
    recorded.files.stamp(fd, 1)
    recorded.files.sync(fd)
    os.close(fd)

    assert recorded.left() == {frozenset({("one/file", b"")})}


def test_changes_are_kept_in_their_order(recorded: Recorded) -> None:
    for name in ("first", "second"):
        os.close(recorded.make(name, b""))

    first, second = ("one/first", b""), ("one/second", b"")
    assert recorded.left() == {frozenset(), frozenset({first}), frozenset({first, second})}


def test_sync_after_one_that_failed_makes_nothing_durable(recorded: Recorded) -> None:
    fd = recorded.make("file", b"body")
    recorded.files.failing_syncs = 1
    with pytest.raises(OSError, match="Input/output"):
        recorded.files.sync(fd)
    recorded.files.sync(fd)
    recorded.files.sync(recorded.one)
    os.close(fd)

    assert frozenset() in recorded.left()
    assert frozenset({("one/file", bytes(4))}) in recorded.left()


def test_queue_without_a_server_can_be_recorded_too(tmp_path: Path) -> None:
    disk = RecordedDisk(tmp_path)
    with Queue(tmp_path, files=RecordedFiles(disk)) as queue:
        published = queue.publish(b"body")
        lost = [
            cut
            for cut in states_of(disk, len(disk.events))
            if not any(file.data == b"body" and published in file.paths for file in cut.state.files)
        ]

    assert disk.events
    assert lost == []
