"""The reaper's pace: batches with pauses, one line of log for a pass, and no falling behind."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mq.config import ReaperConfig
from mq_reaper.reaper import Reaper
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in, write_message


class PaceStopped(BaseException):
    """Ends `run`, which has no end."""


@pytest.fixture
def removed(removed: Path) -> Path:
    for number in range(3):
        write_message(removed / f"orders:{number}")
    return removed


class PlayedTime:
    """The module `time` as the reaper sees it: nothing takes time but its pauses, and what a test
    lets pass."""

    time_ns = time.time_ns

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def played_time(monkeypatch: pytest.MonkeyPatch) -> PlayedTime:
    played = PlayedTime()
    monkeypatch.setattr("mq_reaper.reaper.time", played)
    return played


def _run(config: ReaperConfig, files: WatchedFiles) -> None:
    with closing(Reaper(config, files)) as reaper, pytest.raises(PaceStopped):
        reaper.run()


def test_what_is_removed_during_a_long_pass_does_not_wait_for_it_many_times_over(
    removed: Path, played_time: PlayedTime
) -> None:
    """A reaper that rests in proportion to its work falls behind ever further."""
    files = WatchedFiles()

    def unlink(_: object, name: str) -> None:
        played_time.now += 10
        if name == "orders:late":
            raise PaceStopped
        if not (removed / "orders:late").exists():
            write_message(removed / "orders:late")

    files.before["unlink"] = unlink
    _run(ReaperConfig(removed, rescan_seconds=0.01, batch_files=1, pause_seconds=0.2), files)

    assert names_in(removed) == ["orders:late"]
    assert played_time.now < 2 * 3 * 10.2


def test_pass_is_one_line_of_log_with_files_and_batches(removed: Path) -> None:
    files = WatchedFiles()

    def sync(*_: object) -> None:
        if names_in(removed) == ["orders:late"]:
            raise PaceStopped
        write_message(removed / "orders:late")

    files.before["sync_file_system"] = sync
    with capture_logs() as logs:
        _run(ReaperConfig(removed, rescan_seconds=0.01, batch_files=2, pause_seconds=0), files)

    assert [(entry["event"], entry["files"], entry["batches"]) for entry in logs] == [
        ("reaped", 3, 2)
    ]
    assert logs[0]["seconds"] >= 0


def test_files_that_are_kept_are_not_looked_at_all_the_time(
    removed: Path, played_time: PlayedTime
) -> None:
    files = WatchedFiles()
    looks: list[float] = []

    def look(_: object, name: str) -> None:
        looks.append(played_time.now)
        if len(looks) == 2:
            raise PaceStopped
        played_time.now += 0.02

    with closing(Reaper(ReaperConfig(removed, 1000, rescan_seconds=0.01), files)) as reaper:
        files.before["open_folder"] = look
        with pytest.raises(PaceStopped):
            reaper.run()

    assert looks[1] - looks[0] > 20 * 0.02
