"""How a queue begins and ends, also when a crash or another process comes in between."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.batch_names import new_batch_name
from mq.spool.queue.queues import (
    Made,
    begin_deletion,
    finish_deletion,
    has_queue,
    make_queue,
    unfinished_deletions,
)
from mq.spool.spool import Spool
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in, write_message, write_set

ORDERS = QueueName("orders")


def _make(spool: Spool, queue: str = "orders") -> Made:
    return make_queue(spool.files, spool.fd(Folder.QUEUES), QueueName(queue))


def _fill(root: Path, queue: str = "orders") -> None:
    """One message of the queue in each folder."""
    write_message(root / "queues" / queue / "1")
    write_message(root / "delay" / f"{queue}:2")
    write_message(root / "new" / f"{queue}:3")


def _delete(spool: Spool) -> None:
    assert begin_deletion(spool, ORDERS)
    finish_deletion(spool, ORDERS)


def test_queue_is_a_folder_with_the_mode_of_the_others(spool: Spool) -> None:
    assert _make(spool, "returns") is Made.CREATED
    assert _make(spool, "returns") is Made.EXISTED

    queues = spool.root / "queues"
    assert (queues / "returns").stat().st_mode == queues.stat().st_mode


def test_queue_is_a_folder_and_nothing_else(spool: Spool) -> None:
    queues, fd = spool.root / "queues", spool.fd(Folder.QUEUES)
    write_message(queues / "file")
    (queues / "link").symlink_to("orders")

    assert has_queue(Files(), fd, "orders")
    assert not any(has_queue(Files(), fd, name) for name in ("file", "link", "nowhere"))


def test_deleted_queue_leaves_only_what_the_reaper_takes(spool: Spool) -> None:
    _fill(spool.root)
    write_message(spool.root / "delay" / "orders2:9")
    write_message(spool.root / "remove" / "orders:4")
    write_message(spool.root / "remove" / "orders2:4")

    _delete(spool)

    assert names_in(spool.root / "queues") == os.listdir(spool.root / "new") == []
    assert names_in(spool.root / "delay") == ["orders2:9"]
    removed = spool.root / "remove"
    assert names_in(removed)[:-1] == ["orders2:4"]
    assert [names_in(folder) for folder in removed.glob("orders:.*")] == [
        ["1", "orders:2", "orders:3", "orders:4"]
    ]
    assert unfinished_deletions(spool) == []


def test_what_is_just_being_written_for_several_queues_stays_whole(spool: Spool) -> None:
    """Its publisher has not looked yet whether the queue is there: it may be made again by then."""
    batch = write_set(spool.root / "new" / new_batch_name(ORDERS, QueueName("bills")).open, "1")
    write_message(batch / "bills:1")

    _delete(spool)

    assert names_in(batch) == ["bills:1", "orders:1"]


def test_a_queue_that_exists_keeps_its_messages_from_an_old_deletion(spool: Spool) -> None:
    """A person, or a copy that is not one instant, has put the folder there."""
    _fill(spool.root)
    write_message(spool.root / "remove" / "orders:4")
    (spool.root / "remove" / "orders:.deleting").mkdir()

    finish_deletion(spool, ORDERS)

    assert names_in(spool.root / "queues" / "orders") == ["1"]
    assert names_in(spool.root / "delay") == ["orders:2"]
    assert names_in(spool.root / "new") == ["orders:3"]
    assert "orders:4" in names_in(spool.root / "remove")
    assert unfinished_deletions(spool) == []


def test_folder_of_a_deleted_queue_is_handed_over_under_a_name_of_its_own(spool: Spool) -> None:
    for _ in range(2):
        _make(spool)
        write_message(spool.root / "queues" / "orders" / "1")
        _delete(spool)

    folders = sorted((spool.root / "remove").glob("orders:.*"))
    assert len(folders) == 2
    assert [names_in(folder) for folder in folders] == [["1"], ["1"]]


@pytest.mark.parametrize("is_folder", [False, True])
def test_deletion_is_finished_whatever_a_person_has_put_into_the_queue(
    spool: Spool, is_folder: bool
) -> None:
    """Something that has the name of a message which was removed."""
    _make(spool)
    stray = spool.root / "queues/orders/orders:1"
    stray.mkdir() if is_folder else stray.touch()
    write_message(spool.root / "remove" / "orders:1")
    assert begin_deletion(spool, ORDERS)

    finish_deletion(spool, ORDERS)

    [deleted] = names_in(spool.root / "remove")
    assert unfinished_deletions(spool) == []
    assert len(os.listdir(spool.root / "remove" / deleted)) == 2
    assert _make(spool) is Made.CREATED


def test_queue_that_is_not_there_cannot_be_deleted(spool: Spool) -> None:
    assert not begin_deletion(spool, QueueName("nowhere"))
    finish_deletion(spool, QueueName("nowhere"))

    assert names_in(spool.root / "remove") == []


def test_queue_is_not_made_while_its_deletion_is_unfinished(spool: Spool) -> None:
    _fill(spool.root)
    begin_deletion(spool, ORDERS)

    assert _make(spool) is Made.BEING_DELETED
    assert unfinished_deletions(spool) == [ORDERS]

    finish_deletion(spool, ORDERS)
    assert _make(spool) is Made.CREATED
    assert names_in(spool.root / "queues" / "orders") == []


@pytest.mark.parametrize("stuck", ["new/orders:3", "delay/orders:2"])
def test_what_keeps_a_deletion_from_its_end_is_named_and_keeps_nothing_else(
    spool: Spool, files: WatchedFiles, stuck: str
) -> None:
    _fill(spool.root)
    begin_deletion(spool, ORDERS)

    def refuse(_: int, name: str, *__: object) -> None:
        if name == stuck.partition("/")[2]:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), name)

    files.before["rename"] = refuse

    with pytest.raises(PermissionError, match=f"{stuck} .* cannot be moved: Operation not perm"):
        finish_deletion(spool, ORDERS)

    assert names_in(spool.root / "new") + names_in(spool.root / "delay") == [stuck[-8:]]
    assert _make(spool) is Made.BEING_DELETED
    files.before.clear()
    finish_deletion(spool, ORDERS)
    assert _make(spool) is Made.CREATED


@pytest.mark.parametrize("changes_before_the_crash", range(5))
def test_deletion_that_a_crash_cut_is_finished_by_the_next(
    open_spool: Callable[[WatchedFiles], Spool], changes_before_the_crash: int
) -> None:
    files = WatchedFiles()
    crashing = open_spool(files)
    _make(crashing)
    _fill(crashing.root)
    begin_deletion(crashing, ORDERS)
    left = iter([None] * changes_before_the_crash)

    def crash(*_: object) -> None:
        if next(left, files) is files:
            raise OSError(errno.EIO, "the process is dead")

    files.before["rename"] = crash
    with pytest.raises(OSError, match="dead"):
        finish_deletion(crashing, ORDERS)

    after = open_spool(WatchedFiles())
    assert unfinished_deletions(after) == [ORDERS]
    finish_deletion(after, ORDERS)

    assert unfinished_deletions(after) == []
    assert names_in(after.root / "delay") == os.listdir(after.root / "new") == []
    assert _make(after) is Made.CREATED


def test_second_deletion_waits_for_the_end_of_the_first(spool: Spool) -> None:
    begin_deletion(spool, ORDERS)
    (spool.root / "queues" / "orders").mkdir()
    write_message(spool.root / "queues" / "orders" / "1")

    with pytest.raises(OSError, match=r"exists|not empty|Directory"):
        begin_deletion(spool, ORDERS)

    assert names_in(spool.root / "queues" / "orders") == ["1"]


def test_queue_made_again_keeps_its_messages_when_a_late_deleter_wakes_up(
    open_spool: Callable[[WatchedFiles], Spool],
) -> None:
    """The late one opened `orders:.deleting` before the fast one finished that deletion."""
    files = WatchedFiles()
    late, fast = open_spool(files), open_spool(WatchedFiles())
    _make(late)
    begin_deletion(late, ORDERS)

    def overtake(*_: object) -> None:
        del files.before["lock"]
        finish_deletion(fast, ORDERS)
        _make(fast)
        write_message(fast.root / "delay" / "orders:2")

    files.before["lock"] = overtake
    finish_deletion(late, ORDERS)

    assert names_in(fast.root / "delay") == ["orders:2"]


def test_many_that_delete_and_make_a_queue_at_once_end_in_one_state(
    open_spool: Callable[[WatchedFiles], Spool],
) -> None:
    spools = [open_spool(WatchedFiles()) for _ in range(4)]

    def churn(spool: Spool) -> None:
        for _ in range(20):
            for step in (lambda: _make(spool), lambda: begin_deletion(spool, ORDERS)):
                with suppress(FileExistsError, BlockingIOError):
                    step()
            finish_deletion(spool, ORDERS)

    threads = [threading.Thread(target=churn, args=(spool,)) for spool in spools]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert unfinished_deletions(spools[0]) == []
    assert names_in(spools[0].root / "queues") == []
    assert _make(spools[0]) is Made.CREATED


def test_queue_is_not_made_under_somebody_elses_lock(
    spool: Spool, open_spool: Callable[[WatchedFiles], Spool]
) -> None:
    stopped = open_spool(WatchedFiles())

    with (
        stopped.files.locked_folder(stopped.fd(Folder.QUEUES), "."),
        pytest.raises(BlockingIOError, match="another process holds its lock"),
    ):
        _make(spool, "returns")

    assert _make(spool, "returns") is Made.CREATED
