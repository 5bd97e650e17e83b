"""A large claim by several processes: each message once, whichever of them fails or dies."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.errors import ClaimError
from pyspark_mq.reading.driver import SIDE_BY_SIDE_FROM, Driver
from tests.support.faults import WatchedFiles
from tests.support.lone_root import Root
from tests.support.processes import wait_until

BODIES = [b"%05d" % number for number in range(SIDE_BY_SIDE_FROM + 500)]
NTH = 100
"""Which rename of a message something happens at: in the middle of a chunk."""


class ClaimingFiles(Files):
    """Files that note which process renames a message, and do something before and after."""

    def __init__(self, notes: Path) -> None:
        super().__init__()
        self.driver = os.getpid()
        self.renames = 0
        self.moved = ""
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None
        self.driver_waits_for = ""
        self.notes = notes
        self._notes_fd = os.open(notes, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def is_helper(self) -> bool:
        return os.getpid() != self.driver

    def rename(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        if "/orders:" not in target:
            super().rename(source_fd, source, target_fd, target)
            return
        self.renames += 1
        self.moved = source
        if not self.is_helper():
            wait_until(lambda: self.driver_waits_for in self.notes.read_text(), 60)
        self.before()
        super().rename(source_fd, source, target_fd, target)
        self.note(f"{os.getpid()}\n")
        self.after()

    def note(self, text: str) -> None:
        os.write(self._notes_fd, text.encode())


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClaimingFiles:
    """The files of a machine with three processors."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    return ClaimingFiles(tmp_path / "notes")


@pytest.fixture
def start(start_driver: Callable[..., Driver]) -> Callable[..., Driver]:
    return partial(start_driver, numPartitions="2")


def bodies_of_parts(root: Root, batch: int) -> list[list[bytes]]:
    parts = sorted((root.path / f"spark/claims/lake/{batch}").iterdir())
    return [[path.read_bytes() for path in sorted(part.iterdir())] for part in parts]


def assert_all_in_batch_1(root: Root) -> None:
    parts = bodies_of_parts(root, 1)
    assert sorted(body for part in parts for body in part) == BODIES
    assert root.names("queues") == []
    assert not list((root.path / "spark/claims/lake").glob("*.open.*"))


def test_several_processes_claim_each_message_once_in_even_parts(
    lone_root: Root, files: ClaimingFiles, start: Callable[..., Driver]
) -> None:
    lone_root.put("orders", *BODIES)
    files.driver_waits_for = "\n"

    assert start(files).next_batch(0, None, None) == 1

    assert_all_in_batch_1(lone_root)
    sizes = [len(part) for part in bodies_of_parts(lone_root, 1)]
    assert max(sizes) - min(sizes) <= 3
    assert len(set(files.notes.read_text().split())) > 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_a_helper_had_in_hand_when_it_was_killed_is_claimed_by_the_driver(
    lone_root: Root, files: ClaimingFiles, start: Callable[..., Driver], when: str
) -> None:
    lone_root.put("orders", *BODIES)

    def kill_helper() -> None:
        if files.is_helper() and files.renames == NTH:
            files.note("killed")
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(files, when, kill_helper)
    files.driver_waits_for = "killed"

    assert start(files).next_batch(0, None, None) == 1

    assert_all_in_batch_1(lone_root)


def test_without_another_process_the_driver_claims_alone(
    lone_root: Root,
    files: ClaimingFiles,
    start: Callable[..., Driver],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lone_root.put("orders", *BODIES)

    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refuse)

    assert start(files).next_batch(0, None, None) == 1

    assert_all_in_batch_1(lone_root)
    assert set(files.notes.read_text().split()) == {f"{os.getpid()}"}


def test_an_error_of_the_disk_fails_the_batch_and_loses_nothing(
    lone_root: Root, files: ClaimingFiles, start: Callable[..., Driver]
) -> None:
    *_, unlucky = lone_root.put("orders", *BODIES)

    def fail() -> None:
        """Fail in every process: it is not known which one comes first to this message."""
        if files.moved.endswith(unlucky):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    files.before = fail

    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        start(files).next_batch(0, None, None)

    assert start().next_batch(0, None, None) == 1
    assert_all_in_batch_1(lone_root)


def test_a_driver_fenced_off_in_a_large_claim_fails_and_its_helpers_take_no_more(
    lone_root: Root, files: ClaimingFiles, start: Callable[..., Driver]
) -> None:
    lone_root.put("orders", *BODIES)
    newer: list[Driver] = []

    def fence_off() -> None:
        if not files.is_helper() and files.renames == NTH:
            newer.append(start())

    files.before = fence_off
    driver = start(files)

    with pytest.raises(ClaimError, match="another driver has taken over"):
        driver.next_batch(0, None, None)

    assert len(lone_root.names("queues")) == len(BODIES)
    assert newer[0].next_batch(0, None, None) == 1
    assert_all_in_batch_1(lone_root)


def test_what_a_driver_took_while_it_was_fenced_off_is_given_back_too(
    lone_root: Root, files: ClaimingFiles, start: Callable[..., Driver]
) -> None:
    """Its rename had found the folder, and was done when the new driver had listed that."""
    ids = lone_root.put("orders", b"one", b"two")
    files.before = lambda: 1 / (2 - files.renames)
    with pytest.raises(ZeroDivisionError):
        start(files).next_batch(0, None, None)
    new_files = WatchedFiles()
    slow = [lone_root.path / "queues/orders" / ids[1]]

    def finish_slow_rename(*_: object) -> None:
        if slow:
            [folder] = (lone_root.path / "spark/claims/lake").glob("1.open.*")
            slow[0].rename(folder / f"0/orders:{slow.pop().name}")

    new_files.before["remove_folder"] = finish_slow_rename
    start(new_files)

    assert slow == []
    assert lone_root.names("queues") == [f"orders/{each}" for each in ids]
    assert not list((lone_root.path / "spark/claims/lake").glob("1.open.*"))


def test_a_driver_killed_in_a_large_claim_leaves_all_to_the_next_one_though_helpers_outlive_it(
    lone_root: Root, files: ClaimingFiles, start: Callable[..., Driver]
) -> None:
    lone_root.put("orders", *BODIES)
    alive, living = os.pipe()

    def kill_driver() -> None:
        if not files.is_helper() and files.renames == NTH:
            os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if pid == 0:
        try:
            files.driver = os.getpid()
            files.before = kill_driver
            files.driver_waits_for = "\n"
            start(files).next_batch(0, None, None)
        finally:
            os._exit(1)
    os.close(living)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL

    read: list[list[list[bytes]]] = []
    driver = start()
    while driver.next_batch(len(read), None, None) > len(read):
        read.append(bodies_of_parts(lone_root, len(read) + 1))
        if len(read) == 1:
            # The end of a pipe that all of them have: nobody is left who holds a message.
            assert os.read(alive, 1) == b""
            os.close(alive)

    assert sorted(body for parts in read for part in parts for body in part) == BODIES
    assert lone_root.names("queues") == []
    assert not list((lone_root.path / "spark/claims/lake").glob("*.open.*"))
