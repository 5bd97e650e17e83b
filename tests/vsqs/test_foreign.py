"""VSQS: whatever lies in a queue's folder, each message comes."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.faults import WatchedFiles
from tests.support.users import needs_root
from tests.support.vsqs import OpenQueue
from vsqs.foreign import MAX_BODY_BYTES
from vsqs.index import Index
from vsqs.names import READY, Name
from vsqs.queue import Queue, QueueException, QueueFullException

OLDEST = "1"
EXPIRED = "1.2"


def _plant_tib(path: Path) -> None:
    with path.open("xb") as file:
        file.truncate(1 << 40)


def _plant_loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.fixture(params=["with events", "without events"])
def events(request: pytest.FixtureRequest) -> None:
    if request.param == "without events":
        request.getfixturevalue("no_events")


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("name", [OLDEST, EXPIRED, "9" * 64])
@pytest.mark.parametrize("plant", [_plant_tib, _plant_loop, os.mkfifo, os.mkdir])
def test_what_is_no_message_is_passed_over(
    queue: Queue, folder: Path, open_queue: OpenQueue, plant: Callable[[Path], None], name: str
) -> None:
    plant(folder / name)
    published = queue.publish(b"body")

    for receiver in (queue, open_queue()):
        assert receiver.receive(0, timeout=10) == (published, b"body")


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("name", [OLDEST, EXPIRED])
@pytest.mark.parametrize("plant", [_plant_tib, _plant_loop, os.mkfifo, os.mkdir])
def test_what_is_no_message_is_not_deleted(
    queue: Queue, folder: Path, plant: Callable[[Path], None], name: str
) -> None:
    plant(folder / name)

    assert not queue.delete(OLDEST)
    assert os.listdir(folder) == [name]

    (folder / f"{OLDEST}.9").touch()

    assert queue.delete(OLDEST)
    assert os.listdir(folder) == [name]


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("plant", [_plant_loop, os.mkfifo, os.mkdir])
def test_what_is_no_message_does_not_count(
    folder: Path, open_queue: OpenQueue, plant: Callable[[Path], None]
) -> None:
    queue = open_queue(capacity=1)
    plant(folder / OLDEST)
    plant(folder / EXPIRED)

    assert queue.size() == 0
    queue.publish(b"body", timeout=0)
    assert queue.size() == 1


def test_a_name_at_the_end_of_all_names_hides_no_later_message(queue: Queue, folder: Path) -> None:
    (folder / ("9" * 64)).write_bytes(b"last")
    os.setxattr(folder, "user.vsqs.newest_ms", b"9" * 64)

    published = [queue.publish(b"first"), queue.publish(b"second")]

    assert [queue.receive(timeout=0)[0] for _ in range(3)] == [*published, "9" * 64]


@pytest.fixture
def immutable(folder: Path, queue: Queue) -> Iterator[Callable[[str], None]]:
    def plant(name: str) -> None:
        (folder / name).write_bytes(b"stays")
        os.utime(folder / name, (0, 0))
        done = subprocess.run(["chattr", "+i", folder / name], check=False, capture_output=True)
        if done.returncode:
            pytest.skip("this file system has no immutable files")

    yield plant
    for path in folder.iterdir():
        subprocess.run(["chattr", "-i", path], check=False, capture_output=True)


@needs_root
@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("name", [OLDEST, EXPIRED, "1.new"])
def test_a_file_that_nobody_may_rename_is_passed_over(
    queue: Queue, open_queue: OpenQueue, immutable: Callable[[str], None], name: str
) -> None:
    immutable(name)
    published = queue.publish(b"body")

    for receiver in (queue, open_queue()):
        assert receiver.receive(0, timeout=10) == (published, b"body")


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("code", [errno.EACCES, errno.ELOOP, errno.ENXIO])
def test_a_file_that_may_not_be_opened_is_passed_over(
    folder: Path, open_queue: OpenQueue, code: int
) -> None:
    files = WatchedFiles()
    queue = open_queue(files=files)
    _, second = queue.publish(b"first"), queue.publish(b"second")
    files.fail("open_message", code=code)

    assert queue.receive(timeout=10) == (second, b"second")


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("name", [OLDEST, EXPIRED])
def test_a_file_that_is_too_long_counts_after_it_was_passed_over(
    folder: Path, open_queue: OpenQueue, name: str
) -> None:
    queue = open_queue(capacity=1)
    _plant_tib(folder / name)

    assert queue.receive(timeout=0) == (None, None)
    assert not queue.delete(OLDEST)

    assert queue.size() == 1
    with pytest.raises(QueueFullException):
        queue.publish(b"body", timeout=0)


def test_what_is_passed_over_counts(folder: Path, open_queue: OpenQueue) -> None:
    files = WatchedFiles()
    queue = open_queue(files=files, capacity=3)
    _plant_tib(folder / OLDEST)
    queue.publish(b"of another user")
    files.fail("open_message", code=errno.EACCES)

    assert queue.receive(timeout=0) == (None, None)

    assert queue.size() == 2
    queue.publish(b"third", timeout=0)
    with pytest.raises(QueueFullException):
        queue.publish(b"fourth", timeout=0)


class _Time(int):
    """A time that counts how often any of them is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        _Time.compared += 1
        return int(self) < int(other)

    def __eq__(self, other: object) -> bool:
        _Time.compared += 1
        return int(self) == other

    __hash__ = int.__hash__


@pytest.mark.parametrize("state", [READY, "5"])
def test_to_pass_over_one_file_is_not_to_look_at_all(state: str) -> None:
    """Another user may have any number of them in the folder."""
    index = Index()
    index.load(Name(_Time(time), state) for time in range(1000))
    first = index.oldest if state == READY else index.first_to_expire
    _Time.compared = 0

    for time in range(1000):
        name = first()
        assert name is not None
        assert name.time == time
        index.leave(name)

    assert first() is None
    assert _Time.compared < 100_000


def test_a_file_that_may_be_opened_at_last_comes(folder: Path, open_queue: OpenQueue) -> None:
    files = WatchedFiles()
    queue = open_queue(files=files)
    message_id = queue.publish(b"body")
    files.fail("open_message", code=errno.EACCES)
    assert queue.receive(timeout=0) == (None, None)

    (folder / message_id).chmod(0o644)

    assert queue.receive(timeout=0) == (message_id, b"body")


def test_a_folder_that_may_not_be_changed_is_an_error(
    folder: Path, open_queue: OpenQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = WatchedFiles()
    queue = open_queue(files=files)
    queue.publish(b"body")
    files.fail("rename", code=errno.EACCES)
    monkeypatch.setattr("vsqs.foreign.os.access", lambda *_, **__: False)

    with pytest.raises(PermissionError):
        queue.receive(timeout=10)


def test_a_body_that_nobody_could_receive_is_refused(folder: Path, queue: Queue) -> None:
    with pytest.raises(QueueException, match="1073741824"):
        queue.publish(memoryview(bytearray(MAX_BODY_BYTES + 1)))

    assert list(folder.iterdir()) == []
