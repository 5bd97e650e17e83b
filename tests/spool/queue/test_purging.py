"""A purge on the folders: what it takes, what it leaves, and where that lies then."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from mq.config import ReaperConfig
from mq.disk.files import Files
from mq.lifecycle import PurgeScope
from mq.names import QueueName
from mq.spool.queue import purging
from mq.spool.queue.purged import close_abandoned, open_part
from mq.spool.queue.purging import Purge
from mq.spool.queue.queues import begin_deletion, finish_deletion
from mq.spool.root import open_root
from mq.spool.spool import Spool
from mq_reaper.reaper import Reaper
from tests.support.faults import OldFiles, WatchedFiles
from tests.support.messages import names_in, write_message

ORDERS = QueueName("orders")


@pytest.fixture(autouse=True)
def orders(spool: Spool) -> Path:
    """With messages in each state, and some of other queues."""
    queue = spool.root / "queues" / ORDERS
    queue.mkdir(exist_ok=True)
    for name in ("1", "2"):
        write_message(queue / name)
    for name in ("orders:3", "orders:4", "orders.dead:3", "ordersx:3"):
        write_message(spool.root / "delay" / name, due_in_seconds=1000)
    return queue


@contextmanager
def purge_of(spool: Spool, scope: PurgeScope = PurgeScope.ALL) -> Iterator[Purge]:
    with closing(Purge(spool, ORDERS, scope, lambda *_: None)) as purge:
        purge.begin()
        yield purge


def go_to_the_end(purge: Purge) -> None:
    while purge.go_on():
        pass


def purge(spool: Spool, scope: PurgeScope = PurgeScope.ALL) -> int:
    with purge_of(spool, scope) as purging_:
        go_to_the_end(purging_)
    return purging_.removed


def purged(root: Path) -> list[str]:
    """What lies in the parts."""
    return sorted(path.name for path in root.glob("remove/orders:.purged/*/*"))


def reap(root: Path, keep_seconds: float = 0) -> None:
    config = ReaperConfig(root / "remove", pause_seconds=0, keep_seconds=keep_seconds)
    with closing(Reaper(config, Files())) as reaper:
        reaper.reap()


def test_a_purge_takes_every_state_and_nothing_else(spool: Spool, orders: Path) -> None:
    write_message(spool.root / "delay" / "orders:my:notes")
    assert purge(spool) == 4

    assert names_in(orders) == []
    assert names_in(spool.root / "delay") == ["orders.dead:3", "orders:my:notes", "ordersx:3"]
    assert purged(spool.root) == ["1", "2", "orders:3", "orders:4"]


def test_a_purge_of_what_is_ready_leaves_the_rest(spool: Spool, orders: Path) -> None:
    assert purge(spool, PurgeScope.READY) == 2

    assert names_in(orders) == []
    assert "orders:3" in names_in(spool.root / "delay")


def test_what_is_no_message_stays(spool: Spool, orders: Path) -> None:
    (orders / ".settings").write_text("visibility=7\n")
    (orders / "a person's file").write_text("")

    purge(spool)

    assert sorted(os.listdir(orders)) == [".settings", "a person's file"]


def test_a_message_that_goes_to_and_fro_is_found(spool: Spool, orders: Path) -> None:
    delay = spool.root / "delay"
    with purge_of(spool) as running:
        (orders / "1").rename(delay / "orders:1")
        (delay / "orders:3").rename(orders / "3")
        go_to_the_end(running)

    assert running.removed == 4
    assert names_in(orders) == []


def test_what_a_receiver_takes_from_a_purge_of_the_ready_is_his(spool: Spool, orders: Path) -> None:
    delay = spool.root / "delay"
    with purge_of(spool, PurgeScope.READY) as running:
        (orders / "1").rename(delay / "orders:1")
        go_to_the_end(running)

    assert running.removed == 1
    assert "orders:1" in names_in(delay)


def test_what_comes_behind_its_back_stays(spool: Spool, orders: Path) -> None:
    with purge_of(spool) as running:
        write_message(orders / "7")
        go_to_the_end(running)

    assert names_in(orders) == ["7"]


def test_many_messages_take_many_rounds(
    spool: Spool, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "AT_ONCE", 2)
    monkeypatch.setattr(purging, "ROUND_SECONDS", 0.0)
    for number in range(10, 20):
        write_message(orders / str(number))

    assert purge(spool) == 14
    assert names_in(orders) == []


def test_two_purges_share_the_messages(spool: Spool) -> None:
    with purge_of(spool) as one, purge_of(spool) as other:
        while one.go_on() or other.go_on():
            pass

    assert one.removed + other.removed == 4
    assert names_in(spool.root / "remove" / "orders:.purged") == ["1", "2"]


def test_purging_again_finds_nothing(spool: Spool) -> None:
    purge(spool)
    assert purge(spool) == 0


def test_a_purge_waits_for_whoever_holds_the_queue(
    spool: Spool, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "PURGE_LOCK_SECONDS", 0.01)
    files = Files()
    holder = files.open_folder(None, str(orders))
    assert files.lock_shared(holder)

    with pytest.raises(BlockingIOError):
        purge(spool)
    assert len(names_in(orders)) == 2
    files.close(holder)

    assert purge(spool) == 4


def test_a_queue_that_is_not_there_is_missing(spool: Spool, orders: Path) -> None:
    orders.rename(spool.root / "elsewhere")
    with pytest.raises(FileNotFoundError):
        purge(spool)


@pytest.mark.parametrize("files", [OldFiles()], ids=["no rename flags"])
def test_it_works_without_rename_flags(root: Path, files: Files) -> None:
    with closing(_visit(root, files)) as spool:
        assert purge(spool) == 4
    assert all(path.stat().st_nlink == 1 for path in root.glob("remove/orders:.purged/*/*"))


def _visit(root: Path, files: Files) -> Spool:
    return open_root(root, 0o700, files)[0]


def test_a_file_that_may_not_be_moved_is_reported_and_stays(root: Path) -> None:
    files, told = WatchedFiles(), []
    with closing(_visit(root, files)) as spool:
        files.fail("rename", code=errno.EPERM)
        with closing(Purge(spool, ORDERS, PurgeScope.ALL, lambda *r: told.append(r))) as running:
            running.begin()
            go_to_the_end(running)

    assert running.removed == 3
    assert [why for _, why in told] == [os.strerror(errno.EPERM)]


def test_an_error_of_the_disk_ends_it(root: Path) -> None:
    files = WatchedFiles()
    with closing(_visit(root, files)) as spool:
        with purge_of(spool) as running:
            files.fail("rename", code=errno.EIO)
            with pytest.raises(OSError, match="Input/output"):
                go_to_the_end(running)
        assert purge(spool) + running.removed == 4


def test_a_part_takes_two_messages_of_one_name(spool: Spool, orders: Path) -> None:
    with purge_of(spool) as running:
        write_message(spool.root / "remove/orders:.purged/1.open/1")
        go_to_the_end(running)

    assert running.removed == 4
    assert "1~2" in purged(spool.root)


@pytest.mark.parametrize(
    "name", [".orders:1.open", "\u00b2.open", "\u00b2", "1.x.open", ".open", "9" * 250, "9" * 18]
)
def test_what_is_not_a_part_hinders_neither_sweep_nor_purge(spool: Spool, name: str) -> None:
    folder = spool.root / "remove" / "orders:.purged"
    (folder / name).mkdir(parents=True)

    purge(spool)
    open_part(spool, ORDERS)

    assert close_abandoned(spool) == 0
    assert (folder / name).exists()
    assert purged(spool.root) == ["1", "2", "orders:3", "orders:4"]


def test_the_reaper_leaves_a_purge_that_is_under_way(spool: Spool) -> None:
    with purge_of(spool) as running:
        go_to_the_end(running)
        reap(spool.root)
        assert len(purged(spool.root)) == 4

    reap(spool.root)

    assert names_in(spool.root / "remove") == []


def test_purged_messages_are_kept_as_long_as_removed_ones(spool: Spool) -> None:
    purge(spool)

    reap(spool.root, keep_seconds=1000)

    assert len(purged(spool.root)) == 4


def test_later_purges_keep_no_earlier_one_from_the_reaper(
    spool: Spool, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    purge(spool)
    first = (spool.root / "remove/orders:.purged/1").stat().st_ctime_ns
    while _now_ns(spool.root) <= first + 300_000_000:
        time.sleep(0.01)
    write_message(orders / "8")
    purge(spool)
    kept = (_now_ns(spool.root) - first) / 1e9 - 0.01

    reap(spool.root, keep_seconds=kept)

    assert purged(spool.root) == ["8"]


def _now_ns(folder: Path) -> int:
    path = folder / "clock"
    path.unlink(missing_ok=True)
    path.touch()
    return path.stat().st_ctime_ns


def test_a_deletion_takes_what_was_purged_along(spool: Spool) -> None:
    purge(spool)
    assert begin_deletion(spool, ORDERS)

    finish_deletion(spool, ORDERS)

    assert not (spool.root / "remove/orders:.purged").exists()
    reap(spool.root)
    assert names_in(spool.root / "remove") == []


def test_a_deletion_while_it_runs_ends_it(spool: Spool) -> None:
    with purge_of(spool) as running:
        assert begin_deletion(spool, ORDERS)
        finish_deletion(spool, ORDERS)
        with pytest.raises(FileNotFoundError):
            go_to_the_end(running)
    reap(spool.root)
    assert names_in(spool.root / "remove") == []
