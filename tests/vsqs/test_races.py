"""VSQS: messages that come back, races that are lost, errors, and what is left in `.new`."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mq.disk.files import Files
from tests.support.events import one_event_at_a_time
from tests.support.faults import OldFiles, WatchedFiles
from tests.support.vsqs import Clock, OpenQueue, names_in
from vsqs.limits import NEW_SECONDS
from vsqs.queue import QueueFullException

# Publish


class LosesAReply(Files):
    """Makes the last rename of a publish, and answers what the same request gets when it is
    repeated, as a network file system does."""

    def rename(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        super().rename(source_fd, source, target_fd, target)
        if source == f"{target}.new":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)


def test_a_message_is_published_once_though_the_reply_to_its_rename_is_lost(
    open_queue: OpenQueue, folder: Path
) -> None:
    queue = open_queue(files=LosesAReply(), capacity=2)

    ids = [queue.publish(b"one"), queue.publish(b"two", timeout=0)]

    assert names_in(folder) == ids
    assert queue.size() == 2


# Requeue


def test_an_expired_message_comes_back_in_its_old_place(
    open_queue: OpenQueue, clock: Clock
) -> None:
    queue = open_queue(clock_ns=clock)
    ids = [queue.publish(b"%d" % n) for n in range(3)]
    queue.receive(visibility_timeout=1)
    queue.receive(visibility_timeout=5)
    clock.go(1)

    assert queue.receive()[0] == ids[0]
    assert queue.receive()[0] == ids[2]
    clock.go(4)
    assert queue.receive()[0] == ids[1]
    assert queue.receive(timeout=0) == (None, None)


def test_every_expired_message_is_requeued_before_one_is_taken(
    open_queue: OpenQueue, folder: Path
) -> None:
    folder.mkdir()
    for name in ("3", "2.20", "1.10", "4.99999999999999"):
        (folder / name).write_text(name)

    assert open_queue().receive()[0] == "1"
    assert {"2", "3", "4.99999999999999"} < set(names_in(folder))


def test_a_message_is_there_while_others_receive_it_and_requeue_it(
    open_queue: OpenQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells of each rename in two events, and the second one may come late."""
    queue, other = open_queue(clock_ns=clock, capacity=1), open_queue(clock_ns=clock)
    message_id = other.publish(b"one")
    assert queue.size() == 1
    one_event_at_a_time(monkeypatch)

    other.receive(visibility_timeout=0)

    assert queue.size() == 1
    with pytest.raises(QueueFullException):
        queue.publish(b"two", timeout=0)
    assert queue.receive(visibility_timeout=0, timeout=0) == (message_id, b"one")


@pytest.mark.parametrize("files", [WatchedFiles, OldFiles])
def test_a_lost_race_for_a_message_takes_the_next(
    open_queue: OpenQueue, folder: Path, files: type[WatchedFiles]
) -> None:
    watched = files()
    queue = open_queue(files=watched)
    ids = [queue.publish(b"%d" % n) for n in range(2)]

    def overtake(*_: object) -> None:
        watched.before.clear()
        (folder / ids[0]).rename(folder / f"{ids[0]}.99999999999999")

    watched.before["rename"] = overtake
    assert queue.receive() == (ids[1], b"1")
    assert sorted(name.partition(".")[0] for name in names_in(folder)) == ids


def test_another_message_of_the_same_time_is_never_given_the_wrong_body(
    open_queue: OpenQueue, folder: Path
) -> None:
    """It was deleted and published again between two steps of a receive."""
    files = WatchedFiles()
    queue = open_queue(files=files)
    message_id = queue.publish(b"old")

    def replace(*_: object) -> None:
        files.before.clear()
        (folder / message_id).unlink()
        (folder / message_id).write_bytes(b"new")

    files.before["rename"] = replace

    assert queue.receive() == (message_id, b"new")


def test_what_was_exchanged_and_cannot_be_opened_is_closed_once(
    open_queue: OpenQueue, folder: Path
) -> None:
    """A number that is closed twice may be another thread's file by then."""
    files = WatchedFiles()
    queue = open_queue(files=files)
    message_id = queue.publish(b"old")
    closed: list[int] = []

    def replace(*_: object) -> None:
        (folder / message_id).unlink()
        (folder / message_id).write_bytes(b"new")
        files.fail("open_message", code=errno.EMFILE)
        files.before["close"] = closed.append

    files.before["rename"] = replace
    with pytest.raises(OSError, match="Too many open files"):
        queue.receive()

    files.before.clear()
    assert len(closed) == len(set(closed)) > 0


def test_a_message_under_two_names_is_not_looked_at_for_ever(
    open_queue: OpenQueue, folder: Path
) -> None:
    folder.mkdir()
    (folder / "5").write_text("one")
    (folder / "5.1").write_text("another")
    (folder / "6").write_text("link")
    (folder / "6.1").hardlink_to(folder / "6")
    queue = open_queue()

    assert [queue.receive(1000)[0], queue.receive(1000)[0]] == ["5", "6"]
    assert queue.delete("5")
    assert queue.delete("6")
    assert names_in(folder) == []


# What is left in `.new`


def test_an_old_new_is_swept(open_queue: OpenQueue, folder: Path) -> None:
    folder.mkdir()
    queue = open_queue()
    for name in ("5.new", "6.new"):
        (folder / name).write_text("half")
    queue.receive(timeout=0)
    assert names_in(folder) == ["5.new", "6.new"]

    os.utime(folder / "5.new", times=(0, 0))
    queue.receive(timeout=0)

    assert names_in(folder) == ["6.new"]
    os.utime(folder / "6.new", times=(0, 0))
    open_queue()
    assert open_queue().size() == 0
    assert names_in(folder) == []


@pytest.mark.parametrize("code", [errno.EROFS, errno.EBUSY])
def test_an_old_new_that_stays_keeps_nobody_from_looking(
    open_queue: OpenQueue, folder: Path, code: int
) -> None:
    """It is so on a snapshot that is mounted, and if something is mounted on that file."""
    files = WatchedFiles()
    queue = open_queue(files=files)
    message = queue.publish(b"body"), b"body"
    (folder / "5.new").write_text("half")
    os.utime(folder / "5.new", times=(0, 0))
    files.fail("unlink", code=code, times=10)

    assert queue.size() == 1
    assert list(queue.messages()) == [message]


def test_a_new_that_is_not_old_yet_is_left(open_queue: OpenQueue, folder: Path) -> None:
    folder.mkdir()
    (folder / "5.new").write_text("half")
    age = NEW_SECONDS - 30
    status = (folder / "5.new").stat()
    os.utime(folder / "5.new", times=(status.st_mtime - age, status.st_mtime - age))

    open_queue().publish(b"body")

    assert "5.new" in names_in(folder)


def test_a_publisher_does_not_take_the_new_of_another(open_queue: OpenQueue, folder: Path) -> None:
    """Its own was swept, and another one began to write at the same time."""
    files = WatchedFiles()
    queue = open_queue(files=files)
    theirs: list[Path] = []

    def replace(*_: object) -> None:
        files.before.clear()
        theirs.extend(folder.glob("*.new"))
        theirs[0].unlink()
        theirs[0].write_bytes(b"half of thei")

    files.before["sync"] = replace
    message_id = queue.publish(b"ours")

    assert theirs[0].read_bytes() == b"half of thei"
    assert queue.receive() == (message_id, b"ours")


@pytest.mark.parametrize("call", ["write", "rename"])
def test_a_publisher_whose_new_was_swept_starts_again(
    open_queue: OpenQueue, folder: Path, call: str
) -> None:
    files = WatchedFiles()
    queue = open_queue(files=files)

    def sweep(*_: object) -> None:
        files.before.clear()
        for path in folder.glob("*.new"):
            path.unlink()

    files.before[call] = sweep
    message_id = queue.publish(b"body")

    assert names_in(folder) == [message_id]
    assert queue.receive() == (message_id, b"body")


# Errors


@pytest.mark.parametrize("call", ["create", "write", "rename", "sync"])
def test_an_error_in_publish_leaves_nothing_and_the_next_call_goes_on(
    open_queue: OpenQueue, folder: Path, call: str
) -> None:
    files = WatchedFiles()
    queue = open_queue(files=files)
    files.fail(call, code=errno.ENOSPC)

    with pytest.raises(OSError, match="No space"):
        queue.publish(b"lost")
    left = names_in(folder)
    message_id = queue.publish(b"body")

    assert [name for name in left if not name.endswith(".new")] == []
    assert queue.receive() == (message_id, b"body")


def test_a_publish_whose_name_could_not_be_synced_is_taken_back(
    open_queue: OpenQueue, folder: Path
) -> None:
    files = WatchedFiles()
    queue = open_queue(files=files)
    files.before["rename"] = lambda *_: files.fail("sync")

    with pytest.raises(OSError, match="Input/output"):
        queue.publish(b"sent again later")

    assert names_in(folder) == []


def test_a_short_write_goes_on(
    open_queue: OpenQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = open_queue()
    write = os.write
    monkeypatch.setattr("os.write", lambda fd, data: write(fd, bytes(data[:3])))

    message_id = queue.publish(b"two coffees")

    assert (folder / message_id).read_bytes() == b"two coffees"
