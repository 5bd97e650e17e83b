"""A damaged message goes to `corrupt`, and nothing else that has its name by then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.spool.message.held import Held, hold, set_aside
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper, Swept
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in, seal_of, write_message


@pytest.fixture
def torn(spool: Spool) -> Path:
    return write_message(spool.root / "delay/orders:own", b"bod", seal=seal_of(b"body"))


def _hold(spool: Spool, path: Path) -> Held:
    held = hold(spool.files, spool.fd(Folder(path.parent.name)), path.name)
    assert isinstance(held, Held)
    return held


def _come_again(path: Path) -> None:
    """The queue was deleted and made again, and a producer has sent its id again."""
    path.unlink()
    write_message(path, b"other", seal=seal_of(b"other"))


def test_another_message_that_has_its_name_by_now_stays(spool: Spool, torn: Path) -> None:
    with _hold(spool, torn) as held:
        _come_again(torn)

        assert not set_aside(spool, Folder.DELAY, held)

    assert torn.read_bytes() == b"other"
    assert not (spool.root / "corrupt").exists()


def test_nobody_deletes_its_queue_between_the_last_look_and_the_move(
    spool: Spool, files: WatchedFiles, torn: Path
) -> None:
    others, is_free = Files(), []

    def look(*_: object) -> None:
        fd = others.open_folder(None, str(spool.root / "queues/orders"))
        is_free.append(others.lock(fd))
        others.close(fd)

    files.before |= dict.fromkeys(("rename", "status_of"), look)
    with _hold(spool, torn) as held:
        is_free.clear()

        assert set_aside(spool, Folder.DELAY, held)

    assert is_free[-2:] == [False, False]
    assert names_in(spool.root / "corrupt") == ["orders:own"]


def test_without_a_queue_it_goes_too(spool: Spool, torn: Path) -> None:
    (spool.root / "queues/orders").rmdir()

    with _hold(spool, torn) as held:
        assert set_aside(spool, Folder.DELAY, held)

    assert names_in(spool.root / "corrupt") == ["orders:own"]


def test_it_waits_for_who_has_its_queue_alone(spool: Spool, torn: Path) -> None:
    alone = spool.queues.lock_alone("orders", 0.0)

    with _hold(spool, torn) as held, pytest.raises(BlockingIOError):
        set_aside(spool, Folder.DELAY, held)

    assert torn.exists()
    os.close(alone)


def test_what_comes_to_new_while_a_sweep_reads_a_leftover_stays(
    spool: Spool, files: WatchedFiles
) -> None:
    """A large body takes seconds to read."""
    left = write_message(spool.root / "new/orders:own", b"bod", seal=seal_of(b"body"))

    def come_again(*_: object) -> None:
        del files.before["read"]
        _come_again(left)

    files.before["read"] = come_again

    assert Sweeper(spool, lambda *_: None).sweep() == Swept()

    assert left.read_bytes() == b"other"
    assert not (spool.root / "corrupt").exists()
