"""VSQS: each message's name is above all before it, whatever a publisher has missed."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from mq.config import FOLDER_LOCK_SECONDS
from mq.disk.listing import list_at_once
from tests.support.faults import WatchedFiles, raising
from tests.support.vsqs import Clock, OpenQueue, names_in
from vsqs.queue import Queue

NEWEST = "user.vsqs.newest_ms"


def test_a_publisher_that_begins_names_no_message_below_one_that_is_gone(
    open_queue: OpenQueue, clock: Clock
) -> None:
    ahead = open_queue(clock_ns=clock)
    gone = ahead.publish(b"")
    ahead.delete(gone)
    clock.go(-3600)

    assert int(open_queue(clock_ns=clock).publish(b"")) == int(gone) + 1


def test_the_newest_is_kept_with_the_folder(queue: Queue, folder: Path) -> None:
    message_id = queue.publish(b"")

    assert os.getxattr(folder, NEWEST) == message_id.encode()


def test_a_newest_in_another_unit_or_from_nobody_is_ignored(
    open_queue: OpenQueue, folder: Path, clock: Clock
) -> None:
    open_queue(clock_ns=clock, unit="us").publish(b"")
    os.setxattr(folder, NEWEST, b"\xffnonsense")
    for name in names_in(folder):
        (folder / name).unlink()

    assert int(open_queue(clock_ns=clock, unit="ms").publish(b"")) == clock.ns // 1_000_000


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EPERM, errno.EACCES])
def test_a_folder_that_takes_no_attribute_is_published_to(
    open_queue: OpenQueue, folder: Path, code: int
) -> None:
    files = WatchedFiles()
    files.fail("set_attribute", code=code)

    message_id = open_queue(files=files).publish(b"")

    assert names_in(folder) == [message_id]
    assert NEWEST not in os.listxattr(folder)


def test_a_publish_that_fails_at_the_newest_leaves_nothing(
    open_queue: OpenQueue, folder: Path
) -> None:
    files = WatchedFiles()
    queue = open_queue(files=files)
    files.fail("set_attribute", code=errno.ENOSPC)

    with pytest.raises(OSError, match="No space"):
        queue.publish(b"")

    assert names_in(folder) == []
    assert [queue.publish(b"")] == names_in(folder)


def test_a_publish_that_fails_takes_away_no_file_of_another(
    open_queue: OpenQueue, folder: Path, clock: Clock
) -> None:
    """It has another name by then, and its first one is free."""
    files = WatchedFiles()
    queue = open_queue(files=files, clock_ns=clock)
    first = clock.ns // 1_000_000
    os.setxattr(folder, NEWEST, str(first + 5).encode())

    def fail(*_: object) -> None:
        (folder / f"{first}.new").touch()
        raise OSError(errno.ENOSPC, "No space")

    files.before["set_attribute"] = fail
    with pytest.raises(OSError, match="No space"):
        queue.publish(b"")

    assert names_in(folder) == [f"{first}.new"]


@contextmanager
def turn_of_another(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def test_a_publisher_waits_as_long_as_others_have_their_turns(
    queue: Queue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that is; it waits no second for one that does nothing."""
    now, turns = 0.0, iter(range(30))

    def let_others_go_on(_: float) -> None:
        nonlocal now
        now += 0.9 * FOLDER_LOCK_SECONDS
        turn = next(turns, None)
        if turn is None:
            fcntl.flock(locked, fcntl.LOCK_UN)
        else:
            os.setxattr(folder, NEWEST, str(10**15 + turn).encode())

    clock = SimpleNamespace(monotonic=lambda: now, sleep=let_others_go_on)
    monkeypatch.setattr("vsqs.turn.time", clock)
    with turn_of_another(folder) as locked:
        assert int(queue.publish(b"")) == 10**15 + 30


def test_a_publisher_that_was_stopped_in_its_turn_holds_nobody_up_for_ever(
    queue: Queue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vsqs.turn.FOLDER_LOCK_SECONDS", 0.1)

    with turn_of_another(folder):
        assert queue.publish(b"") in names_in(folder)


def test_a_listing_that_misses_the_oldest_is_not_believed(
    open_queue: OpenQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where neither events come nor listings of one moment: it got its name while the folder was
    listed, and then another did."""

    monkeypatch.setattr("vsqs.folder.Watch", raising(errno.EMFILE))
    queue = open_queue()
    missed = [b"5"]

    def miss(folder_fd: int) -> list[tuple[bytes, int]]:
        left_out = missed.pop() if missed else None
        return [each for each in list_at_once(folder_fd) if each[0] != left_out]

    (folder / "5").touch()
    (folder / "6").touch()
    monkeypatch.setattr("vsqs.listing.list_at_once", miss)

    assert queue.receive()[0] == "5"
    assert not missed


def test_another_publisher_is_not_waited_for_where_there_are_no_locks(
    open_queue: OpenQueue, folder: Path
) -> None:
    files = WatchedFiles()
    queue = open_queue(files=files)
    files.fail("lock", code=errno.ENOLCK)

    with turn_of_another(folder):
        message_id = queue.publish(b"")

    assert names_in(folder) == [message_id]
    assert files.calls["lock"] == 1
