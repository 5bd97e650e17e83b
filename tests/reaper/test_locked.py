"""What a process has under its lock is not reaped: it may be about to move the message by a name
that another one would have by then."""

from __future__ import annotations

import errno
import fcntl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mq.config import ReaperConfig
from mq_reaper.reaper import Reaper
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in, write_message


@pytest.fixture
def files() -> WatchedFiles:
    return WatchedFiles()


@pytest.fixture
def reaper(removed: Path, files: WatchedFiles) -> Iterator[Reaper]:
    with closing(Reaper(ReaperConfig(removed, pause_seconds=0), files)) as made:
        yield made


def test_message_whose_lock_is_held_is_kept_until_it_is_free(removed: Path, reaper: Reaper) -> None:
    for name in ("orders:1", "orders:2"):
        write_message(removed / name)
    with (removed / "orders:1").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        assert reaper.reap() == 1

        assert names_in(removed) == ["orders:1"]
        assert reaper.counts.kept == 1
    assert reaper.reap() == 1


def test_folder_with_a_message_whose_lock_is_held_is_kept_too(
    removed: Path, reaper: Reaper
) -> None:
    part = removed / "orders:.purged" / "1"
    part.mkdir(parents=True)
    for name in ("1", "2"):
        write_message(part / name)
    with (part / "1").open() as held, capture_logs() as logs:
        fcntl.flock(held, fcntl.LOCK_EX)

        assert reaper.reap() == 1

        assert names_in(part) == ["1"]
        assert logs == []
    assert reaper.reap() == 1
    assert not part.exists()


def test_message_whose_lock_the_disk_does_not_tell_is_kept(
    removed: Path, files: WatchedFiles, reaper: Reaper
) -> None:
    write_message(removed / "orders:1")
    files.fail("open_message", code=errno.EIO)
    with capture_logs() as logs:
        assert [reaper.reap(), reaper.reap()] == [0, 1]

    assert [entry["name"] for entry in logs] == ["orders:1"]
