"""A message held and read by one chain of file calls, as `hold_in` does it call by call."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from mq.disk.calls import run_one
from mq.disk.file_work import do_together
from mq.lifecycle import Folder
from mq.spool.message.held import Lost, hold_in
from mq.spool.message.opening import OpenedMessage, Read, open_held, opened_by, reading
from mq.spool.message.trailer import Content
from mq.spool.spool import Spool
from tests.support.descriptors import open_descriptors
from tests.support.faults import WatchedFiles
from tests.support.messages import seal_of, write_message

NAME = "orders:1"


@pytest.fixture
def spool(either_spool: Spool) -> Spool:
    return either_spool


def opened(spool: Spool, limit: int = 1000) -> OpenedMessage | Lost:
    outcome = run_one(spool.files, reading(spool, spool.fd(Folder.DELAY), NAME, limit))
    return opened_by(spool, Folder.DELAY, NAME, outcome)


def test_it_is_what_hold_in_finds(spool: Spool, root: Path) -> None:
    path = write_message(root / "delay" / NAME, b"body", seal=seal_of(b"body"))
    os.setxattr(path, "user.mime_type", b"text/plain")
    wanted = hold_in(spool, Folder.DELAY, NAME)
    assert not isinstance(wanted, Lost)
    with wanted:
        expected = wanted.name, wanted.seal, tuple(wanted.status[:2]), wanted.lease

    found = opened(spool)

    assert isinstance(found, OpenedMessage)
    held = found.held
    assert (held.name, held.seal, (held.status.st_mode, held.status.st_ino), held.lease) == expected
    assert found.read == Read(Content(b"body", {}), "text/plain")
    with open(path) as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    held.close()


def test_a_body_that_fails_its_seal_is_reported(spool: Spool, root: Path) -> None:
    write_message(root / "delay" / NAME, b"bode", seal=seal_of(b"body"))

    found = opened(spool)

    assert isinstance(found, OpenedMessage)
    assert found.read == Read(None, None)
    found.held.close()


def test_a_larger_body_is_left_unread(spool: Spool, root: Path) -> None:
    write_message(root / "delay" / NAME, b"body", seal=seal_of(b"body"))

    found = opened(spool, limit=3)

    assert isinstance(found, OpenedMessage)
    assert found.read is None
    found.held.close()


@pytest.mark.parametrize("kind", ["gone", "link", "folder", "fifo", "locked"])
def test_what_is_no_message_is_lost_as_for_hold_in(spool: Spool, root: Path, kind: str) -> None:
    path = root / "delay" / NAME
    if kind == "link":
        path.symlink_to("nowhere")
    elif kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "locked":
        write_message(path, b"body")
    before = open_descriptors()
    with open(root / "format" if kind != "locked" else path) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        expected = hold_in(spool, Folder.DELAY, NAME)

        assert isinstance(expected, Lost)
        assert opened(spool) is expected
        assert do_together([open_held(spool, Folder.DELAY, NAME)]) == [expected]
    assert open_descriptors() == before


def test_a_file_that_was_exchanged_after_it_was_opened_is_gone(spool: Spool, root: Path) -> None:
    path = write_message(root / "delay" / NAME, b"body")
    files = spool.files = WatchedFiles()

    def exchange(*_: object) -> None:
        path.unlink()
        write_message(path, b"another")

    files.before["lock"] = exchange

    assert opened(spool) is Lost.GONE


@pytest.mark.parametrize(("times", "read"), [(1, None), (2, Read(None, None))])
def test_an_error_of_reading_is_damage_only_if_it_lasts(
    spool: Spool, root: Path, times: int, read: Read | None
) -> None:
    write_message(root / "delay" / NAME, b"body", seal=seal_of(b"body"))
    files = spool.files = WatchedFiles()
    files.fail("read", code=errno.EIO, times=times)

    found = opened(spool)

    assert isinstance(found, OpenedMessage)
    assert found.read == read
    found.held.close()


@pytest.mark.parametrize("call", ["open_message", "lock", "read"])
def test_any_other_error_is_raised_and_leaves_nothing_open(
    spool: Spool, root: Path, call: str
) -> None:
    write_message(root / "delay" / NAME, b"body", seal=seal_of(b"body"))
    files = spool.files = WatchedFiles()
    files.fail(call, code=errno.ESTALE)
    before = open_descriptors()

    with pytest.raises(OSError, match="Stale"):
        opened(spool)

    assert open_descriptors() == before
