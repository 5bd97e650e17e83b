"""The reaper: the only one that unlinks messages, and only those it may."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from mq.config import SECOND_NS, ReaperConfig
from mq.errors import CommandFailed, ExitCode, StartRefused
from mq_reaper.reaper import Reaper
from tests.support.faults import SuspiciousFiles
from tests.support.messages import names_in, write_message
from tests.support.processes import wait_until

MakeReaper = Callable[..., Reaper]


@pytest.fixture
def files() -> SuspiciousFiles:
    return SuspiciousFiles()


@pytest.fixture
def make_reaper(removed: Path, files: SuspiciousFiles) -> Iterator[MakeReaper]:
    """`make_reaper(keep_seconds=5)` reaps `removed`."""
    made: list[Reaper] = []

    def make(**settings: Any) -> Reaper:
        made.append(Reaper(ReaperConfig(removed, pause_seconds=0, **settings), files))
        return made[-1]

    yield make
    for reaper in made:
        reaper.close()


def test_removed_messages_are_unlinked(removed: Path, make_reaper: MakeReaper) -> None:
    for name in ("orders:1", "orders:1~2", ".probe", "a person's file"):
        write_message(removed / name)

    reaper = make_reaper()
    assert reaper.reap() == 4

    assert os.listdir(removed) == []
    assert reaper.counts.reaped == 3  # Messages alone are counted.


def test_message_is_kept_from_its_removal_on(removed: Path, make_reaper: MakeReaper) -> None:
    written_long_ago = write_message(removed.parent / "1")
    os.utime(written_long_ago, (0, 0))
    written_long_ago.rename(removed / "orders:1")
    leased_for_long = write_message(removed.parent / "2", due_in_seconds=1000)
    leased_for_long.rename(removed / "orders:2")

    assert make_reaper(keep_seconds=1000).reap() == 0
    reaper = make_reaper(keep_seconds=0.05)

    def is_reaped() -> bool:
        reaper.reap()
        return names_in(removed) == []

    wait_until(is_reaped)


def test_a_message_of_a_fifo_queue_is_kept_as_long_as_any_other(
    removed: Path, make_reaper: MakeReaper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its deduplication id is needed for five minutes only."""
    write_message(removed / "orders.fifo:1")
    later_ns = time.time_ns() + 600 * SECOND_NS
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)

    assert make_reaper(keep_seconds=1000).reap() == 0
    assert make_reaper(keep_seconds=500).reap() == 1


def test_file_system_is_synced_once_before_each_batch(
    removed: Path, files: SuspiciousFiles, make_reaper: MakeReaper
) -> None:
    for number in range(7):
        write_message(removed / f"orders:{number}")
    order: list[str] = []
    files.before["sync_file_system"] = lambda *_: order.append("sync")
    files.before["unlink"] = lambda *_: order.append("unlink")

    make_reaper(batch_files=3).reap()

    assert order == [*["sync", *["unlink"] * 3] * 2, "sync", "unlink"]


def test_nothing_to_reap_costs_no_sync(files: SuspiciousFiles, make_reaper: MakeReaper) -> None:
    assert make_reaper().reap() == 0
    assert files.syncs() == 0


def test_batch_that_could_not_be_synced_is_not_unlinked(
    removed: Path, files: SuspiciousFiles, make_reaper: MakeReaper
) -> None:
    write_message(removed / "orders:1")
    reaper = make_reaper()
    files.fail("sync_file_system")

    with pytest.raises(OSError, match="Input/output error"):
        reaper.reap()

    assert names_in(removed) == ["orders:1"]
    assert reaper.reap() == 1
    assert files.retried == []


def test_links_are_unlinked_and_never_followed(removed: Path, make_reaper: MakeReaper) -> None:
    outside = removed.parent / "outside"
    outside.mkdir()
    precious = write_message(outside / "precious")
    for name in ("orders:1", "orders:.0123", "orders:.deleting", ".link"):
        (removed / name).symlink_to(outside)
    (removed / "orders:2").symlink_to(precious)
    folder = removed / "orders:.4567"
    folder.mkdir()
    (folder / "1").symlink_to(precious)
    (folder / "2").symlink_to(outside)

    make_reaper().reap()

    assert os.listdir(removed) == []
    assert names_in(outside) == ["precious"]


def test_link_put_in_place_of_a_folder_meanwhile_is_not_followed(
    removed: Path, files: SuspiciousFiles, make_reaper: MakeReaper
) -> None:
    outside = removed.parent / "outside"
    outside.mkdir()
    write_message(outside / "precious")
    folder = removed / "orders:.0123"
    folder.mkdir()
    reaper = make_reaper()

    def plant(_: object, name: str) -> None:
        if name == folder.name and not folder.is_symlink():
            folder.rmdir()
            folder.symlink_to(outside)

    files.before["open_folder"] = plant
    with capture_logs() as logs:
        reaper.reap()

    assert names_in(outside) == ["precious"]
    assert [entry["name"] for entry in logs] == [folder.name]


def test_folder_of_a_deleted_queue_is_emptied_and_removed(
    removed: Path, make_reaper: MakeReaper
) -> None:
    for queue in ("orders:.0123", "orders:.4567"):
        (removed / queue).mkdir()
        for number in range(5):
            write_message(removed / queue / str(number))

    assert make_reaper(batch_files=3).reap() == 10

    assert os.listdir(removed) == []


def test_folder_of_a_deleted_queue_is_kept_as_long_as_a_message(
    removed: Path, make_reaper: MakeReaper
) -> None:
    folder = removed.parent / "orders"
    folder.mkdir()
    write_message(folder / "1")
    folder = folder.rename(removed / "orders:.0123")

    assert make_reaper(keep_seconds=1000).reap() == 0

    assert names_in(folder) == ["1"]


def test_deletion_under_way_is_let_alone(removed: Path, make_reaper: MakeReaper) -> None:
    deleting = removed / "orders:.deleting"
    deleting.mkdir()
    write_message(deleting / "1")

    with capture_logs() as logs:
        assert make_reaper().reap() == 0

    assert names_in(deleting) == ["1"]
    assert logs == []


def test_folders_of_others_are_left_and_reported_once(
    removed: Path, make_reaper: MakeReaper
) -> None:
    (removed / "a person's").mkdir()
    (removed / "orders:.0123" / "inner").mkdir(parents=True)
    write_message(removed / "orders:.0123" / "1")
    reaper = make_reaper()

    with capture_logs() as logs:
        assert [reaper.reap(), reaper.reap()] == [1, 0]

    assert sorted(names_in(removed)) == ["a person's", "orders:.0123"]
    assert {entry["name"]: entry["why"] for entry in logs} == {
        "a person's": "not the folder of a deleted queue",
        "orders:.0123": "Directory not empty",
    }
    assert len(logs) == 2


def test_file_that_cannot_be_unlinked_keeps_no_other_from_it(
    removed: Path, files: SuspiciousFiles, make_reaper: MakeReaper
) -> None:
    for number in range(5):
        write_message(removed / f"orders:{number}")

    def refuse(_: object, name: str) -> None:
        if name == "orders:2":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    files.before["unlink"] = refuse
    reaper = make_reaper()
    with capture_logs() as logs:
        assert [reaper.reap(), reaper.reap()] == [4, 0]

    assert names_in(removed) == ["orders:2"]
    assert [entry["name"] for entry in logs] == ["orders:2"]


def test_file_that_another_reaper_took_is_not_missed(
    removed: Path, files: SuspiciousFiles, make_reaper: MakeReaper
) -> None:
    for number in range(3):
        write_message(removed / f"orders:{number}")
    first, second = make_reaper(), make_reaper()
    counts: list[int] = []

    def overtake(*_: object) -> None:
        del files.before["sync_file_system"]
        counts.append(second.reap())

    files.before["sync_file_system"] = overtake
    counts.append(first.reap())

    assert counts == [3, 0]


def test_reaper_without_its_folder_is_refused(tmp_path: Path, files: SuspiciousFiles) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("nowhere", "link"):
        with pytest.raises(StartRefused, match="make it, or start mq first") as refused:
            Reaper(ReaperConfig(tmp_path / name), files)

        assert refused.value.exit_code is ExitCode.ROOT


def test_reaper_run_by_another_user_is_told_so(tmp_path: Path, files: SuspiciousFiles) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    files.before["open_folder"] = refuse

    with pytest.raises(StartRefused, match="run this as the user who owns it"):
        Reaper(ReaperConfig(tmp_path), files)


def test_reaper_whose_folder_was_moved_away_ends(removed: Path, make_reaper: MakeReaper) -> None:
    """Its supervisor starts it again, on the folder that is there by then."""
    reaper = make_reaper()
    removed.rename(removed.parent / "backup")
    removed.mkdir()
    write_message(removed.parent / "backup" / "orders:1")

    with pytest.raises(CommandFailed, match="moved away") as failed:
        reaper.run()

    assert failed.value.exit_code is ExitCode.ROOT
    assert names_in(removed.parent / "backup") == ["orders:1"]


def test_a_batch_that_spark_has_read_is_reaped_with_its_parts(
    removed: Path, make_reaper: MakeReaper
) -> None:
    for part in ("0", "1"):
        (removed / "lake:.batch" / part).mkdir(parents=True)
        write_message(removed / "lake:.batch" / part / "orders:1")

    assert make_reaper().reap() == 2

    assert os.listdir(removed) == []
