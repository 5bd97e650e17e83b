"""What a person moves away while the reaper is at work on it stays as it is: it was removed by
mistake, and may be in its queue again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mq.config import ReaperConfig
from mq.errors import CommandFailed
from mq_reaper.reaper import FILES_BETWEEN_LOOKS, Reaper
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in, write_message

BATCH = 2


@pytest.fixture
def reaper(removed: Path, files: WatchedFiles) -> Iterator[Reaper]:
    with closing(
        Reaper(ReaperConfig(removed, batch_files=BATCH, pause_seconds=0), files)
    ) as reaper:
        yield reaper


def _move_before_the_second_batch(files: WatchedFiles, folder: Path, to: Path) -> None:
    def move(*_: object) -> None:
        if files.calls["sync_file_system"] == 2:
            folder.rename(to)

    files.before["sync_file_system"] = move


def _write_messages(folder: Path, prefix: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(5):
        write_message(folder / f"{prefix}{number}")


@pytest.mark.parametrize("below", [".", "0"])
def test_folder_of_a_deleted_queue_that_is_put_back_keeps_the_rest(
    removed: Path, files: WatchedFiles, reaper: Reaper, below: str
) -> None:
    _write_messages(removed / "orders:.0123" / below)
    back = removed.parent / "orders"
    _move_before_the_second_batch(files, removed / "orders:.0123", back)

    with capture_logs() as logs:
        assert reaper.reap() == BATCH

    assert len(names_in(back / below)) == 5 - BATCH
    assert logs == []


@pytest.mark.parametrize("below", [".", "0"])
def test_folder_that_is_put_back_during_a_large_batch_keeps_most(
    removed: Path, files: WatchedFiles, below: str
) -> None:
    folder, back = removed / "orders:.0123", removed.parent / "orders"
    (folder / below).mkdir(parents=True, exist_ok=True)
    for number in range(FILES_BETWEEN_LOOKS + 5):
        (folder / below / f"{number}").touch()

    def move(*_: object) -> None:
        del files.before["unlink"]
        folder.rename(back)

    files.before["unlink"] = move
    with closing(Reaper(ReaperConfig(removed), files)) as reaper:
        assert reaper.reap() == FILES_BETWEEN_LOOKS

    assert len(names_in(back / below)) == 5


def test_folder_of_removed_messages_keeps_the_rest(
    removed: Path, files: WatchedFiles, reaper: Reaper
) -> None:
    _write_messages(removed, "orders:")
    saved = removed.parent / "saved"
    _move_before_the_second_batch(files, removed, saved)

    with pytest.raises(CommandFailed, match="moved away"):
        reaper.reap()

    assert len(names_in(saved)) == 5 - BATCH


def test_folder_that_another_reaper_has_removed_is_no_error(
    removed: Path, files: WatchedFiles, reaper: Reaper
) -> None:
    _write_messages(removed / "orders:.0123")

    def overtake(*_: object) -> None:
        del files.before["sync_file_system"]
        with closing(Reaper(ReaperConfig(removed), files)) as other:
            other.reap()

    files.before["sync_file_system"] = overtake
    with capture_logs() as logs:
        reaper.reap()

    assert names_in(removed) == []
    assert logs == []


def test_folder_of_purges_that_a_deletion_takes_meanwhile_is_no_error(
    removed: Path, files: WatchedFiles, reaper: Reaper
) -> None:
    """It is listed, and has another name by the time it is opened."""
    purged = removed / "orders:.purged"
    _write_messages(purged / "1")

    def delete_queue(_: object, name: str) -> None:
        if name == purged.name:
            purged.rename(removed / "orders:.0123")

    files.before["open_folder"] = delete_queue
    with capture_logs() as logs:
        reaper.reap()

    assert names_in(removed) == ["orders:.0123"]
    assert logs == []
