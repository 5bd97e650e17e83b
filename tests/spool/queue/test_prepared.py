"""A queue that is made with settings: it has them whenever it exists, and nothing is left of it
where it was not made."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.queue import queues
from mq.spool.queue.prepared import PreparedQueue
from mq.spool.queue.queue_settings import QueueSettings
from mq.spool.queue.queues import Made, has_queue
from mq.spool.queue.settings_file import settings_in
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from tests.support.descriptors import open_descriptors
from tests.support.faults import MortalFiles, WatchedFiles
from tests.support.messages import names_in

RETURNS = QueueName("returns")
SETTINGS = QueueSettings(delay_seconds=5.0, ttl_seconds=60.0)


@contextmanager
def _prepared(spool: Spool, queue: QueueName = RETURNS) -> Iterator[PreparedQueue]:
    with closing(PreparedQueue(spool, queue, SETTINGS)) as prepared:
        prepared.make()
        yield prepared


def _make(spool: Spool, queue: QueueName = RETURNS) -> Made:
    with _prepared(spool, queue) as prepared:
        return prepared.put_in_place()


def test_queue_has_its_settings_and_is_like_the_others(spool: Spool) -> None:
    assert _make(spool) is Made.CREATED

    assert settings_in(spool, RETURNS) == SETTINGS
    made = spool.root / "queues" / "returns"
    assert made.stat().st_mode == (spool.root / "queues").stat().st_mode
    assert os.listdir(made) == [".settings"]
    assert os.listdir(spool.root / "new") == names_in(spool.root / "remove") == []
    with spool.queues.shared("returns"):
        pass  # Nobody holds its lock any more.


def test_nobody_sees_a_queue_that_has_no_place_yet(
    spool: Spool, open_spool: Callable[[WatchedFiles], Spool]
) -> None:
    with _prepared(spool) as prepared:
        assert os.listdir(spool.root / "queues") == ["orders"]
        Sweeper(open_spool(WatchedFiles()), lambda *_: None).sweep()

        assert prepared.put_in_place() is Made.CREATED


def test_a_sweep_that_comes_before_the_lock_takes_nothing_away(
    spool: Spool, files: WatchedFiles, open_spool: Callable[[WatchedFiles], Spool]
) -> None:
    sweeper = Sweeper(open_spool(WatchedFiles()), lambda *_: None)

    def sweep_once(*_: object) -> None:
        del files.before["lock"]
        sweeper.sweep()

    files.before["lock"] = sweep_once

    assert _make(spool) is Made.CREATED
    assert "lock" not in files.before
    assert settings_in(spool, RETURNS) == SETTINGS


@pytest.mark.parametrize("content", [[], ["message"]])
def test_a_queue_that_is_there_stays_as_it_is(spool: Spool, content: list[str]) -> None:
    orders = spool.root / "queues" / "orders"
    for name in content:
        (orders / name).write_text("")
    inode = orders.stat().st_ino

    assert _make(spool, QueueName("orders")) is Made.EXISTED

    assert (orders.stat().st_ino, os.listdir(orders)) == (inode, content)
    assert os.listdir(spool.root / "new") == []


@pytest.mark.parametrize("content", [[], ["message"]])
def test_a_folder_that_comes_at_the_last_moment_is_not_replaced(
    spool: Spool, files: WatchedFiles, content: list[str]
) -> None:
    path = spool.root / "queues" / "returns"

    def make(*_: object) -> None:
        if not path.exists():
            path.mkdir()
            for name in content:
                (path / name).write_text("")

    with _prepared(spool) as prepared:
        files.before["lock"] = make
        assert prepared.put_in_place() is Made.EXISTED

    assert os.listdir(path) == content


def test_an_unfinished_deletion_of_that_name_comes_first(spool: Spool) -> None:
    with _prepared(spool, QueueName("orders")) as prepared:
        assert queues.begin_deletion(spool, QueueName("orders"))
        assert prepared.put_in_place() is Made.BEING_DELETED

        queues.finish_deletion(spool, QueueName("orders"))
        with pytest.raises(FileNotFoundError):
            prepared.put_in_place()

    assert _make(spool, QueueName("orders")) is Made.CREATED


def test_a_crash_at_each_call_leaves_no_queue_or_one_with_its_settings(
    open_spool: Callable[[WatchedFiles], Spool], root: Path
) -> None:
    made = []
    for calls in range(12):
        mortal = MortalFiles()
        dying = open_spool(mortal)
        mortal.calls_left = calls
        with suppress(OSError):
            _make(dying)
        mortal.calls_left = 0
        dying.close()

        alive = open_spool(WatchedFiles())
        Sweeper(alive, lambda *_: None).sweep()
        is_made = has_queue(alive.files, alive.fd(Folder.QUEUES), RETURNS)
        made.append(is_made)
        assert not is_made or settings_in(alive, RETURNS) == SETTINGS
        assert os.listdir(root / "new") == []
        assert all(name.startswith("returns:.") for name in names_in(root / "remove"))
        if is_made:
            assert queues.begin_deletion(alive, RETURNS)
            queues.finish_deletion(alive, RETURNS)
        alive.close()

    assert made == sorted(made)
    assert {False, True} == set(made)


@pytest.mark.parametrize("call", ["make_folder", "open_unnamed", "write", "sync", "link"])
def test_an_error_of_the_disk_leaves_nothing(spool: Spool, files: WatchedFiles, call: str) -> None:
    before = open_descriptors()
    files.fail(call, code=errno.ENOSPC)

    with pytest.raises(OSError, match="No space"):
        _make(spool)

    assert os.listdir(spool.root / "queues") == ["orders"]
    assert os.listdir(spool.root / "new") == []
    assert open_descriptors() == before
    assert _make(spool) is Made.CREATED
