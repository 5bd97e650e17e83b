"""fsck respects what other processes do between its look and its repair."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.message.held import Held, hold
from mq.spool.queue.queues import Made, make_queue
from mq.spool.spool import Spool
from tests.support.faults import WatchedFiles
from tests.support.fsck import Fsck, everything, sealed


@pytest.fixture
def fsck(spool: Spool) -> Fsck:
    return Fsck(spool)


def before_open(fsck: Fsck, number: int, act: Callable[[], object]) -> WatchedFiles:
    """Let `act` happen just before the check opens a message for the `number`th time."""
    files = WatchedFiles()

    def hook(*_: object) -> None:
        if files.calls["open_message"] == number:
            act()

    files.before["open_message"] = hook
    fsck.files = lambda: files
    return files


def test_a_damaged_message_that_goes_on_before_it_is_mended_is_let_go(
    root: Path, orders: Path, fsck: Fsck
) -> None:
    damaged = sealed(orders / "1")
    damaged.write_bytes(b"x")
    before_open(fsck, 2, lambda: damaged.rename(root / "delay" / "orders:1"))

    assert fsck.mend() == []

    assert everything(root)["delay/orders:1"] == b"x"


def test_a_whole_message_in_place_of_a_damaged_one_is_let_alone(
    root: Path, tmp_path: Path, orders: Path, fsck: Fsck
) -> None:
    """A person has restored it meanwhile."""
    sealed(orders / "1").write_bytes(b"x")
    restored = sealed(tmp_path / "restored")
    before_open(fsck, 2, lambda: os.replace(restored, orders / "1"))

    assert fsck.mend() == []

    assert everything(root)["queues/orders/1"] == b"body"


def test_what_has_got_the_name_of_a_damaged_message_while_it_is_read_is_let_alone(
    root: Path, orders: Path, fsck: Fsck
) -> None:
    """Its queue was deleted and made again, and a producer has sent its id again."""
    damaged, files = sealed(orders / "own"), WatchedFiles()
    damaged.write_bytes(b"x" * 4)

    def come_again(*_: object) -> None:
        if files.calls["lock"]:  # The look takes none.
            files.before.clear()
            damaged.unlink()
            sealed(damaged)

    files.before["read"] = come_again
    fsck.files = lambda: files

    assert fsck.mend() == []

    assert everything(root)["queues/orders/own"] == b"body"
    assert not (root / "corrupt").exists()


def test_an_orphan_whose_queue_is_made_before_it_is_mended_is_let_alone(
    root: Path, fsck: Fsck
) -> None:
    sealed(root / "delay" / "late:1")
    # One is for its seal, two are for the looks.
    before_open(fsck, 4, (root / "queues" / "late").mkdir)

    assert fsck.mend() == []

    assert "delay/late:1" in everything(root)


def test_no_queue_is_made_while_its_orphan_is_set_aside(
    root: Path, spool: Spool, fsck: Fsck
) -> None:
    sealed(root / "delay" / "late:1")
    made: list[Made] = []

    def make(*_: object) -> None:
        with suppress(BlockingIOError):  # A server tries again.
            made.append(make_queue(spool.files, spool.fd(Folder.QUEUES), QueueName("late")))

    files = WatchedFiles()
    files.before["rename"] = make
    fsck.files = lambda: files

    (mended,) = fsck.mend()

    assert (mended.kind, made) == ("orphan", [])


def test_an_orphan_that_the_deletion_of_its_queue_takes_along_is_none(
    root: Path, fsck: Fsck
) -> None:
    """The deletion began before the look, and ended while the message was held."""
    orphan = sealed(root / "delay" / "gone:1")
    before_open(fsck, 3, lambda: orphan.rename(root / "remove" / "gone:1"))

    assert fsck.mend() == []


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_duplicate_that_is_removed_meanwhile_is_none(
    root: Path, orders: Path, fsck: Fsck, number: int
) -> None:
    """A removal takes no lock: its rename may come at any moment."""
    other = sealed(orders / "1", b"one")
    sealed(root / "delay" / "orders:1", b"another")
    # Two are for the seals.
    before_open(fsck, 2 + number, lambda: other.rename(root / "remove" / "orders:1"))

    assert [each for each in fsck.report() if each.path == "queues/orders/1"] == []


def test_a_young_upload_is_not_locked_to_see_whether_it_lives(
    root: Path, spool: Spool, fsck: Fsck
) -> None:
    """Its process, about to lock it, would think that a sweep discards it."""
    (root / "new" / ".0123abcd").touch()
    files = WatchedFiles()
    locks: list[int] = []
    held: list[object] = []

    def lock_it() -> None:
        locks.append(files.calls["lock"])
        held.append(hold(spool.files, spool.fd(Folder.NEW), ".0123abcd"))

    fsck.files = lambda: files
    fsck.meanwhile = lock_it

    assert fsck.mend() == []
    assert locks == [0]
    (upload,) = held
    assert isinstance(upload, Held)
    upload.close()
