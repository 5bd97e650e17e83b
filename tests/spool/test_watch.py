"""The watch: every kind of change, by whomever, is seen; lost events are admitted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mq.spool.watch import Change, FolderEvent, Watch
from tests.support.events import one_event_at_a_time
from tests.support.messages import stamp, write_message


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "orders"
    made.mkdir()
    return made


@pytest.fixture
def watch(folder: Path) -> Iterator[Watch]:
    made = Watch()
    made.add("orders", str(folder))
    yield made
    made.close()


def _changes(watch: Watch) -> list[tuple[str, Change]]:
    return [(event.name, event.change) for event in watch.read()]


def _last(watch: Watch) -> list[tuple[str, str, Change]]:
    told = watch.read_last()
    return [(folder, name, change) for folder, change, names in told for name in names]


def test_files_that_come_and_go_are_reported_in_order(folder: Path, watch: Watch) -> None:
    elsewhere = write_message(folder.parent / "1")

    inside = elsewhere.rename(folder / "1")
    write_message(folder / "2")
    inside.rename(elsewhere)
    (folder / "2").unlink()

    assert watch.read() == [
        FolderEvent("orders", "1", Change.CAME),
        FolderEvent("orders", "2", Change.CAME),
        FolderEvent("orders", "1", Change.WENT),
        FolderEvent("orders", "2", Change.WENT),
    ]
    assert watch.read() == []


def test_whole_moves_are_reported_though_the_kernel_reports_halves(
    folder: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_event_at_a_time(monkeypatch)
    write_message(folder / "1").rename(folder / "2")
    write_message(folder / "3").rename(folder.parent / "3")

    fd = os.open(folder, os.O_RDONLY)
    try:
        told = [watch.read_whole_moves(fd) for _ in range(5)]
    finally:
        os.close(fd)

    assert [[(event.name, event.change) for event in events] for events in told] == [
        [("1", Change.CAME)],
        [("1", Change.WENT), ("2", Change.CAME)],
        [("3", Change.CAME)],
        [("3", Change.WENT)],
        [],
    ]


def test_changed_stamps_are_reported_where_they_are_asked_for(folder: Path, watch: Watch) -> None:
    message = write_message(folder / "1")
    watch.read()

    stamp(message, due_in_seconds=60)
    assert watch.read() == []

    watch.add("orders", str(folder), attributes=True)
    stamp(message, due_in_seconds=30)
    assert _changes(watch) == [("1", Change.CHANGED)]


def test_a_folder_that_is_moved_or_deleted_is_reported(folder: Path, watch: Watch) -> None:
    moved = folder.rename(folder.with_name("elsewhere"))
    assert ("", Change.FOLDER_WENT) in _changes(watch)

    moved.rmdir()
    assert ("", Change.FOLDER_WENT) in _changes(watch)


def test_folder_made_again_is_watched_under_its_old_key(folder: Path, watch: Watch) -> None:
    folder.rmdir()
    folder.mkdir()

    watch.add("orders", str(folder))
    write_message(folder / "1")

    assert ("1", Change.CAME) in _changes(watch)


def test_what_happened_in_a_dropped_folder_is_not_reported(folder: Path, watch: Watch) -> None:
    write_message(folder / "1")

    watch.drop("orders")
    write_message(folder / "2")

    assert watch.read() == []
    watch.drop("orders")


def test_two_folders_are_told_apart(folder: Path, watch: Watch) -> None:
    other = folder.with_name("returns")
    other.mkdir()
    watch.add("returns", str(other))

    write_message(folder / "1")
    write_message(other / "1")

    assert [event.folder for event in watch.read()] == ["orders", "returns"]


def test_lost_events_are_admitted(folder: Path, watch: Watch) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    message = write_message(folder / "0")

    for number in range(limit // 2 + 2):
        message = message.rename(folder / str(number % 2 + 1))

    assert watch.read()[-1] == FolderEvent("", "", Change.OVERFLOW)


def test_link_in_place_of_a_folder_is_not_watched(folder: Path, watch: Watch) -> None:
    link = folder.with_name("link")
    link.symlink_to(folder)

    for path in (link, write_message(folder.with_name("file")), folder.with_name("nowhere")):
        with pytest.raises(OSError, match=r"Not a directory|No such file"):
            watch.add("orders", str(path))


def test_the_last_event_of_each_name_tells_where_it_is_now(folder: Path, watch: Watch) -> None:
    elsewhere = write_message(folder.parent / "1")

    inside = elsewhere.rename(folder / "1")
    write_message(folder / "2").unlink()
    (folder / "a folder").mkdir()
    for _ in range(2):
        inside.rename(elsewhere)
        elsewhere.rename(inside)

    assert sorted(_last(watch)) == [
        ("orders", "1", Change.CAME),
        ("orders", "2", Change.WENT),
        ("orders", "a folder", Change.CAME),
    ]
    assert _last(watch) == []


def test_the_last_events_are_read_to_their_end(folder: Path, watch: Watch) -> None:
    names = [f"{number}-{'x' * 200}-\udcff" for number in range(1000)]

    for name in names:
        write_message(folder / name)

    assert {name for _, name, _ in _last(watch)} == set(names)


@pytest.mark.parametrize("odd", [0, 1, 5, 9])
@pytest.mark.parametrize("name", ["1", "x" * 31, "x" * 32, "x" * 48, "x" * 64])
def test_names_of_all_lengths_are_read_among_ids(
    folder: Path, watch: Watch, name: str, odd: int
) -> None:
    ids = [f"01a205be-67fe-77cc-b5ba-b6aa6695925{number}" for number in range(10)]

    for each in [*ids[:odd], name, *ids[odd:]]:
        write_message(folder / each)
    (folder / ids[3]).unlink()

    last = dict.fromkeys([*ids, name], Change.CAME) | {ids[3]: Change.WENT}
    assert sorted(_last(watch)) == sorted(("orders", *each) for each in last.items())


def test_last_events_of_a_folder_that_went_or_was_dropped(folder: Path, watch: Watch) -> None:
    other = folder.with_name("returns")
    other.mkdir()
    watch.add("returns", str(other))

    write_message(folder / "1")
    other.rmdir()
    watch.drop("orders")

    assert _last(watch) == [("returns", "", Change.FOLDER_WENT)]


def test_lost_events_are_admitted_among_the_last(folder: Path, watch: Watch) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    message = write_message(folder / "0")

    for number in range(limit // 2 + 2):
        message = message.rename(folder / str(number % 2 + 1))

    assert ("", "", Change.OVERFLOW) in _last(watch)
