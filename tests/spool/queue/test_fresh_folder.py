"""A long queue is purged by its folder: one rename, behind which the queue is what it was."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mq.config import ReaperConfig
from mq.disk.files import Files
from mq.lifecycle import PurgeScope
from mq.spool.queue import fresh_folder, purging
from mq.spool.queue.purging import Purge
from mq.spool.queue.queues import begin_deletion, finish_deletion
from mq.spool.queue.settings_file import change_settings, settings_in, settings_lock
from mq.spool.root import open_root
from mq.spool.spool import Spool
from mq_reaper.reaper import Reaper
from tests.support.faults import OldFiles, PlainFiles, WatchedFiles
from tests.support.messages import names_in, write_message
from tests.support.purges import MESSAGES, ORDERS, fill, purge
from tests.support.users import NOBODY, needs_root


@pytest.fixture(autouse=True)
def long_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "LONG_QUEUE", 1)


@pytest.fixture
def spool(root: Path) -> Iterator[Spool]:
    with closing(visit(root)) as spool:
        yield spool


@pytest.fixture
def orders(spool: Spool) -> Path:
    return fill(spool.root)


def visit(root: Path) -> Spool:
    return open_root(root, 0o700, Files())[0]


def parts(root: Path) -> Path:
    return root / "remove/orders:.purged"


@pytest.mark.parametrize("scope", PurgeScope)
def test_one_rename_takes_all_messages(spool: Spool, orders: Path, scope: PurgeScope) -> None:
    write_message(spool.root / "delay/orders:9", due_in_seconds=1000)
    before = orders.stat().st_ino

    assert purge(spool, scope) == MESSAGES + (scope is PurgeScope.ALL)

    assert orders.stat().st_ino != before
    assert (parts(spool.root) / "1").stat().st_ino == before
    assert names_in(orders) == []
    assert names_in(spool.root / "delay") == ([] if scope is PurgeScope.ALL else ["orders:9"])


def test_a_short_queue_keeps_its_folder(
    spool: Spool, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "LONG_QUEUE", MESSAGES + 1)
    before = orders.stat().st_ino

    assert purge(spool) == MESSAGES
    assert orders.stat().st_ino == before


def test_settings_stay_in_force_at_every_moment(root: Path) -> None:
    files = WatchedFiles()
    with closing(open_root(root, 0o700, files)[0]) as spool:
        fill(root)
        change_settings(spool, ORDERS, {"ttl": "77"})
        seen = []

        def look(*_: object) -> None:
            with closing(visit(root)) as other:
                seen.append(settings_in(other, ORDERS))

        for call in ("exchange", "close", "rename", "link", "set_attribute", "lock"):
            files.before[call] = look

        assert purge(spool) == MESSAGES
        after = settings_in(spool, ORDERS)

    assert after.ttl_seconds == 77
    assert {each.ttl_seconds for each in seen} == {77}


def test_owner_mode_access_lists_and_attributes_stay(spool: Spool, orders: Path) -> None:
    orders.chmod(0o2751)
    os.setxattr(orders, "user.note", b"mine")
    _let_nobody_in(orders)
    before = _access(orders)

    purge(spool)

    assert _access(orders) == before
    assert os.getxattr(orders, "user.note") == b"mine"


def _let_nobody_in(folder: Path) -> None:
    """What is made in there may be read by that user (acl(5): version, then tag, bits and id)."""
    entries = ((0x01, 7, -1), (0x02, 4, NOBODY), (0x04, 5, -1), (0x10, 5, -1), (0x20, 0, -1))
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    os.setxattr(folder, "system.posix_acl_default", value)


def _access(folder: Path) -> tuple[int, int, int, bytes]:
    status = folder.stat()
    acl = os.getxattr(folder, "system.posix_acl_default")
    return status.st_uid, status.st_gid, status.st_mode, acl


Spoil = Callable[[Path], object]

UNUSUAL: dict[str, Spoil] = {
    "a person's file": lambda folder: (folder / "note.txt").write_text("mine"),
    "a folder": lambda folder: (folder / "1.old").mkdir(),
    "settings that are a link": lambda folder: (folder / ".settings").symlink_to("/etc/passwd"),
    "settings that are a folder": lambda folder: (folder / ".settings").mkdir(),
}


@needs_root
def test_the_folder_of_another_group_is_emptied_message_by_message(
    spool: Spool, orders: Path
) -> None:
    os.chown(orders, -1, NOBODY)
    before = orders.stat()

    assert purge(spool) == MESSAGES
    assert (orders.stat().st_ino, orders.stat().st_gid) == (before.st_ino, NOBODY)


@pytest.mark.parametrize("spoil", UNUSUAL.values(), ids=UNUSUAL)
def test_an_unusual_folder_is_emptied_message_by_message(
    spool: Spool, orders: Path, spoil: Spoil
) -> None:
    spoil(orders)
    before, others = orders.stat().st_ino, [n for n in os.listdir(orders) if not n.isdigit()]

    assert purge(spool) == MESSAGES

    assert orders.stat().st_ino == before
    assert os.listdir(orders) == others


@pytest.mark.parametrize("files", [OldFiles, PlainFiles], ids=["no rename flags", "no attributes"])
def test_a_poor_file_system_empties_it_message_by_message(
    root: Path, files: type[WatchedFiles]
) -> None:
    with closing(open_root(root, 0o700, files())[0]) as spool:
        before = fill(root).stat().st_ino
        assert purge(spool) == MESSAGES
    assert (root / "queues/orders").stat().st_ino == before


def test_a_network_file_system_empties_it_message_by_message(
    spool: Spool, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The locks may not reach its other machines."""
    monkeypatch.setattr(fresh_folder, "file_system_kind", lambda root: "gfs2")
    before = orders.stat().st_ino

    assert purge(spool) == MESSAGES
    assert orders.stat().st_ino == before


@pytest.mark.parametrize("call", ["exchange", "set_attribute", "link"])
@pytest.mark.parametrize("code", [errno.EINVAL, errno.EPERM, errno.ENOSPC, errno.EXDEV])
def test_a_folder_that_cannot_be_exchanged_is_emptied_message_by_message(
    root: Path, call: str, code: int
) -> None:
    files = WatchedFiles()
    with closing(open_root(root, 0o700, files)[0]) as spool:
        before = fill(root).stat().st_ino
        change_settings(spool, ORDERS, {"ttl": "77"})
        files.fail(call, code=code)

        assert purge(spool) == MESSAGES
        assert settings_in(spool, ORDERS).ttl_seconds == 77
    assert (root / "queues/orders").stat().st_ino == before


def test_an_error_of_the_disk_ends_it_with_everything_in_its_place(root: Path) -> None:
    files = WatchedFiles()
    with closing(open_root(root, 0o700, files)[0]) as spool:
        folder = fill(root)
        files.fail("exchange", code=errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            purge(spool)

        assert len(names_in(folder)) == MESSAGES
        assert purge(spool) == MESSAGES


def test_while_somebody_changes_its_settings_it_is_emptied_message_by_message(
    spool: Spool, orders: Path
) -> None:
    before = orders.stat().st_ino

    with settings_lock(spool, ORDERS):
        assert purge(spool) == MESSAGES

    assert orders.stat().st_ino == before


def test_what_is_no_message_and_came_late_is_brought_back(root: Path) -> None:
    files, reported = WatchedFiles(), list[str]()
    with closing(open_root(root, 0o700, files)[0]) as spool:
        folder = fill(root)
        files.before["exchange"] = lambda *_: (folder / "note.txt").write_text("mine")

        assert purge(spool, reported=reported) == MESSAGES

    assert (folder / "note.txt").read_text() == "mine"
    assert reported == []


def test_what_cannot_be_brought_back_is_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh_folder, "PURGE_LOCK_SECONDS", 0.01)
    files, reported = WatchedFiles(), list[str]()
    with closing(open_root(root, 0o700, files)[0]) as spool:
        folder = fill(root)

        def put_two(*_: object) -> None:
            (folder / "note.txt").write_text("mine")
            (parts(root) / "1.open/note.txt").write_text("also mine")

        files.before["exchange"] = put_two
        assert purge(spool, reported=reported) == MESSAGES

    assert reported == ["remove/orders:.purged/1.open/note.txt"]
    assert (folder / "note.txt").read_text() == "also mine"


def test_a_lock_of_the_folder_that_was_taken_is_not_waited_for(
    spool: Spool, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two purges at once: the second one takes what came after the first."""
    with closing(Purge(spool, ORDERS, PurgeScope.ALL, lambda *_: None)) as first:
        first.begin()
        write_message(orders / "new")
        assert purge(spool) == 1
    assert first.removed == MESSAGES


def test_the_reaper_takes_the_folder_away(spool: Spool, orders: Path) -> None:
    change_settings(spool, ORDERS, {"ttl": "77"})
    purge(spool)

    with closing(Reaper(ReaperConfig(spool.root / "remove", pause_seconds=0), Files())) as reaper:
        reaper.reap()

    assert names_in(spool.root / "remove") == []
    assert settings_in(spool, ORDERS).ttl_seconds == 77


def test_a_deletion_of_the_queue_ends_it(spool: Spool, orders: Path) -> None:
    with closing(Purge(spool, ORDERS, PurgeScope.ALL, lambda *_: None)) as running:
        running.begin()
        assert begin_deletion(spool, ORDERS)
        finish_deletion(spool, ORDERS)
    assert not parts(spool.root).exists()
    with pytest.raises(FileNotFoundError):
        purge(spool)
