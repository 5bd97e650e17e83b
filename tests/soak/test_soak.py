"""A short run, with everything that `make soak` has, and the clock and the disk of a run."""

from __future__ import annotations

import errno
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.config import MIB
from tests.soak.control import Control
from tests.soak.rig import HOUR_SECONDS, SoakRig
from tests.soak.run import MKFS_OPTIONS, soak
from tests.support.native import can_compile

pytestmark = pytest.mark.skipif(not can_compile(), reason="install a C compiler")

_LOOK = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
if len(sys.argv) > 2:
    os.utime(fd, ns=(time.time_ns() + int(sys.argv[2]) * 10**9,) * 2)
now, status = time.time(), os.fstat(fd)
print(round(now), round(status.st_mtime - now), round(status.st_ctime - now))
"""
"""The clock; mtime and ctime of a file, which is made if it is missing and may be stamped, in
seconds ahead of the clock."""

_CHANGE = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for change in (os.fsync, lambda fd: os.write(fd, b"x")):
    try:
        change(fd)
        print(0)
    except OSError as error:
        print(error.errno)
"""
"""The errnos of a sync and of a write."""


@pytest.fixture
def disk(loop_mount: Callable[..., Path]) -> Path:
    return loop_mount("ext4", 512, *MKFS_OPTIONS)


def test_nothing_is_lost_doubled_torn_or_reordered_whatever_goes_wrong(
    disk: Path, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()

    outcome = soak(disk / "root", logs, "short", 4, workers=8, pause_seconds=(0.1, 0.3))

    assert outcome.failures() == []
    assert outcome.answered.keys() >= {"publish", "receive"}
    assert outcome.struck


@pytest.mark.crash_long
@pytest.mark.timeout(1800)
def test_nothing_goes_wrong_for_longer(disk: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()

    outcome = soak(disk / "root", logs, "long", 600)

    assert outcome.failures() == []
    assert outcome.growths.keys() == {"mq", "other-mq", "mq-sqs", "mq-mover", "mq-reaper"}


def test_the_clock_and_the_times_of_files_step_together(disk: Path, tmp_path: Path) -> None:
    control = Control(tmp_path, disk)
    seen(control, _LOOK, disk / "stamped", 2 * HOUR_SECONDS)
    for ahead in (HOUR_SECONDS, 0, -HOUR_SECONDS):
        control.step(ahead)

        now, mtime, ctime = seen(control, _LOOK, disk / f"{ahead}")
        _, stamped, changed = seen(control, _LOOK, disk / "stamped")

        assert abs(now - ahead - time.time()) < HOUR_SECONDS / 2
        # What was made just now; a stamp, which is a time like any other; what was made before.
        assert max(abs(mtime), abs(ctime)) < HOUR_SECONDS / 2
        assert abs(stamped - (2 * HOUR_SECONDS - ahead)) < HOUR_SECONDS / 2
        assert abs(changed + ahead) < HOUR_SECONDS / 2


def test_syncs_and_writes_of_the_runs_disk_fail_alone(disk: Path, tmp_path: Path) -> None:
    control = Control(tmp_path, disk)
    control.fail(syncs=errno.EIO, writes=errno.ENOSPC)

    assert seen(control, _CHANGE, disk / "there") == [errno.EIO, errno.ENOSPC]
    assert seen(control, _CHANGE, tmp_path / "elsewhere") == [0, 0]

    control.fail()
    assert seen(control, _CHANGE, disk / "there") == [0, 0]


def test_a_full_disk_has_no_room_for_root_either(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = SoakRig(disk / "root", tmp_path, random.Random(1))
    found: list[int | None] = []

    def write_meanwhile(_: float) -> None:
        try:
            (disk / "more").write_bytes(bytes(MIB))
        except OSError as error:
            found.append(error.errno)

    monkeypatch.setattr("tests.soak.rig.time.sleep", write_meanwhile)

    rig.fill_the_disk()

    assert found == [errno.ENOSPC]


def seen(control: Control, script: str, path: Path, *more: int) -> list[int]:
    """What a process of the run prints."""
    command = [sys.executable, "-c", script, str(path), *map(str, more)]
    done = subprocess.run(command, env=control.environment(), check=True, capture_output=True)
    return [int(word) for word in done.stdout.split()]
