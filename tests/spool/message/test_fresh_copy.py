"""What a dead process left in `new` is written again before it is delivered."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.spool.message.seal import SEAL_ATTRIBUTE
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper, Swept
from tests.support.faults import OldFiles, WatchedFiles
from tests.support.messages import names_in, seal_of, write_message

BODY = b"body" * 300_000
SECOND_NS = 1_000_000_000


@pytest.fixture
def files() -> WatchedFiles:
    return WatchedFiles()


@pytest.fixture
def left(spool: Spool) -> Path:
    path = write_message(spool.root / "new" / "orders:1", BODY, seal=seal_of(BODY))
    os.setxattr(path, "user.mime_type", b"text/plain")
    os.setxattr(path, "user.of-a-person", b"kept")
    return path


@pytest.fixture
def reports() -> list[str]:
    return []


@pytest.fixture
def sweeper(spool: Spool, reports: list[str]) -> Sweeper:
    return Sweeper(spool, lambda name, why: reports.append(why))


def _delivered(spool: Spool) -> Path:
    return spool.root / "queues" / "orders" / "1"


def test_leftover_is_delivered_as_a_new_file_with_all_that_it_had(
    spool: Spool, files: WatchedFiles, sweeper: Sweeper, left: Path
) -> None:
    inode, attributes = left.stat().st_ino, _attributes(left)
    before = files.syncs()

    assert sweeper.sweep() == Swept(delivered=1)

    assert _delivered(spool).stat().st_ino != inode
    assert _delivered(spool).read_bytes() == BODY
    assert _attributes(_delivered(spool)) == attributes
    assert files.syncs() == before + 2
    assert os.listdir(spool.root / "new") == []


def test_delayed_leftover_keeps_its_time(spool: Spool, sweeper: Sweeper, left: Path) -> None:
    due_ns = time.time_ns() + 1000 * SECOND_NS
    os.utime(left, ns=(due_ns, due_ns))
    inode = left.stat().st_ino

    assert sweeper.sweep() == Swept(delivered=1)

    hidden = (spool.root / "delay" / "orders:1").stat()
    assert hidden.st_mtime_ns == due_ns
    assert hidden.st_ino != inode


def test_leftover_whose_copy_cannot_be_synced_waits(
    spool: Spool, files: WatchedFiles, sweeper: Sweeper, reports: list[str], left: Path
) -> None:
    files.fail("sync")

    assert sweeper.sweep() == Swept()

    assert os.listdir(spool.root / "new") == [left.name]
    assert names_in(spool.root / "queues" / "orders") == []
    assert reports == [os.strerror(errno.EIO)]
    assert sweeper.was_hindered
    assert sweeper.uncopied == {left.name}
    assert sweeper.sweep() == Swept(delivered=1)
    assert not sweeper.uncopied


@pytest.mark.parametrize("call", ["open_unnamed", "write", "set_attribute", "link"])
def test_leftover_is_delivered_as_it_is_where_there_is_no_room(
    spool: Spool, files: WatchedFiles, sweeper: Sweeper, left: Path, call: str
) -> None:
    inode = left.stat().st_ino
    files.fail(call, code=errno.ENOSPC)

    assert sweeper.sweep() == Swept(delivered=1)

    assert _delivered(spool).stat().st_ino == inode
    assert os.listdir(spool.root / "new") == []


def test_leftover_without_a_seal_is_delivered_as_it_is(spool: Spool, sweeper: Sweeper) -> None:
    left = write_message(spool.root / "new" / "orders:1")
    inode = left.stat().st_ino

    assert sweeper.sweep() == Swept(delivered=1)

    assert _delivered(spool).stat().st_ino == inode


def test_leftover_is_delivered_as_it_is_where_names_cannot_be_exchanged(
    open_spool: Callable[[WatchedFiles], Spool], left: Path
) -> None:
    inode, files = left.stat().st_ino, WatchedFiles()
    files.fail("exchange", code=errno.EINVAL)

    for each in (files, OldFiles()):
        spool = open_spool(each)
        assert Sweeper(spool, lambda name, why: pytest.fail(why)).sweep() == Swept(delivered=1)
        assert _delivered(spool).stat().st_ino == inode
        assert os.listdir(spool.root / "new") == []
        os.rename(_delivered(spool), left)


def test_old_file_that_cannot_be_unlinked_is_discarded_by_the_next_sweep(
    spool: Spool, files: WatchedFiles, sweeper: Sweeper, left: Path
) -> None:
    files.fail("unlink")

    assert sweeper.sweep() == Swept(delivered=1)
    assert len(os.listdir(spool.root / "new")) == 1

    assert sweeper.sweep() == Swept()
    assert os.listdir(spool.root / "new") == []
    assert _delivered(spool).read_bytes() == BODY


def test_message_whose_name_leads_elsewhere_by_now_is_left_to_the_next_sweep(
    spool: Spool, files: WatchedFiles, sweeper: Sweeper, left: Path
) -> None:
    """This one has not written it again."""
    other = write_message(spool.root / "corrupt-elsewhere", b"other", seal=seal_of(b"other"))

    def replace(*_: object) -> None:
        files.before.clear()
        os.replace(other, left)

    files.before["link"] = replace
    sweeper.sweep()
    assert os.listdir(spool.root / "new") == [left.name]
    sweeper.sweep()

    assert _delivered(spool).read_bytes() == b"other"
    assert os.listdir(spool.root / "new") == []


def _attributes(path: Path) -> dict[str, bytes]:
    names = os.listxattr(path)
    assert SEAL_ATTRIBUTE in names
    return {name: os.getxattr(path, name) for name in names}
