"""When many files are due is asked by several processes, and no file is forgotten."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from mq_mover.due_times import due_times
from tests.support.faults import raising

FILES = 10_000


@pytest.fixture(autouse=True)
def _two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mq_mover.due_times._FILES_WORTH_A_PROCESS", 100)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.fixture
def folder() -> Iterator[Path]:
    """Files due in the year 2100, a second apart, in memory: nobody waits for the disk."""
    with TemporaryDirectory(dir="/dev/shm") as made:
        for number in range(FILES):
            path = Path(made, str(number))
            path.touch()
            os.utime(path, (0, DUE + number))
        yield Path(made)


@pytest.fixture
def folder_fd(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY)
    before = _children()
    yield fd
    os.close(fd)
    assert _children() == before, "somebody is left behind"


def _children() -> set[str]:
    """Return the children of this process; other tests may have some."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {pid for each in tasks for pid in each.read_text().split()}


DUE = 4_102_444_800
NAMES = [str(number) for number in range(FILES)]
EXPECTED = {str(number): (DUE + number) * 1_000_000_000 for number in range(FILES)}


def _all(folder_fd: int, names: Sequence[str]) -> dict[str, int]:
    found = [pair for some in due_times(folder_fd, names, 0) for pair in some]
    assert len(found) == len(dict(found)), "a file was found twice"
    return dict(found)


def test_every_file_is_found_once(folder_fd: int) -> None:
    assert _all(folder_fd, NAMES) == EXPECTED
    assert _all(folder_fd, NAMES[:7]) == {name: EXPECTED[name] for name in NAMES[:7]}
    assert _all(folder_fd, []) == {}


def test_files_that_are_gone_are_left_out(folder_fd: int, folder: Path) -> None:
    for name in NAMES[2000:9000]:
        (folder / name).unlink()

    assert _all(folder_fd, NAMES) == {name: EXPECTED[name] for name in NAMES[:2000] + NAMES[9000:]}


@pytest.mark.parametrize("count", [10, FILES])
def test_a_file_that_the_disk_says_nothing_of_is_due_now_and_the_others_when_they_say(
    folder_fd: int, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    look = os.stat

    def fail(name: str, **where: Any) -> os.stat_result:
        if name == "5":
            raise OSError(errno.EIO, os.strerror(errno.EIO), name)
        return look(name, **where)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", fail)
        found = _all(folder_fd, NAMES[:count])

    assert found == {name: EXPECTED[name] for name in NAMES[:count]} | {"5": 0}


@pytest.mark.parametrize("seconds", [-(2**40), -1, 0, 2**40])
def test_no_stamp_is_too_odd(seconds: int) -> None:
    with TemporaryDirectory(dir="/dev/shm") as made:
        path = Path(made, "odd")
        path.touch()
        os.utime(path, (0, seconds))
        fd = os.open(made, os.O_RDONLY)

        found = _all(fd, ["odd"])

        os.close(fd)
        assert found == {"odd": 2**63 - 1 if seconds > DUE else path.stat().st_ctime_ns}


def test_work_of_a_process_that_dies_is_done_here(
    folder_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = os.fork

    def fork_and_kill() -> int:
        pid = fork()
        if pid:
            os.kill(pid, signal.SIGKILL)
        return pid

    monkeypatch.setattr(os, "fork", fork_and_kill)

    assert _all(folder_fd, NAMES) == EXPECTED


def test_without_another_process_the_scan_goes_on_alone(
    folder_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fork", raising(errno.EAGAIN))

    assert _all(folder_fd, NAMES) == EXPECTED


def test_scan_that_is_given_up_leaves_no_process(folder_fd: int) -> None:
    found = due_times(folder_fd, NAMES, 0)
    next(found)

    assert isinstance(found, Generator)
    found.close()
