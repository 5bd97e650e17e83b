"""The file `.settings`: replaced whole, followed by all, and damaged without harm."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from mq.disk.status import SAME_TICK_NS
from mq.errors import InvalidRequest
from mq.names import QueueName
from mq.spool.queue import settings_file
from mq.spool.queue.queue_settings import QueueSettings
from mq.spool.queue.settings_file import (
    change_settings,
    read_settings,
    settings_in,
    settings_lock,
)
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from tests.support.faults import MortalFiles, WatchedFiles

ORDERS = QueueName("orders")


def test_settings_are_a_text_that_a_person_can_read(spool: Spool, orders: Path) -> None:
    change_settings(spool, ORDERS, {"visibility": "60", "dead-letters": "orders.failed"})
    change_settings(spool, ORDERS, {"paused": "true"})

    text = (orders / ".settings").read_text()
    assert text == "visibility=60\ndead-letters=orders.failed\npaused=true\n"
    assert os.listdir(spool.root / "new") == []


def test_a_reading_that_takes_long_does_not_make_a_change_just_before_it_old(
    spool: Spool, files: WatchedFiles, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is edited in the tick of that change, after the text was read, leaves the same times."""
    change_settings(spool, ORDERS, {"visibility": "60"})
    clock_ns = changed_ns = (orders / ".settings").stat().st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: clock_ns)

    def take_long(*_: object) -> None:
        nonlocal clock_ns
        clock_ns += 10 * SAME_TICK_NS

    files.before["read"] = take_long
    opened = spool.queues.open(ORDERS)

    assert read_settings(files, opened, ORDERS).version is None

    version = read_settings(files, opened, ORDERS).version
    assert version is not None
    assert version.ctime_ns == changed_ns


def test_a_change_that_changes_nothing_writes_nothing(
    spool: Spool, files: WatchedFiles, orders: Path
) -> None:
    change_settings(spool, ORDERS, {"delay": ""})
    assert not (orders / ".settings").exists()
    change_settings(spool, ORDERS, {"delay": "5"})
    syncs = files.syncs()

    change_settings(spool, ORDERS, {"delay": "5.0"})

    assert files.syncs() == syncs


def test_a_wrong_value_changes_nothing(spool: Spool, orders: Path) -> None:
    change_settings(spool, ORDERS, {"delay": "5"})

    with pytest.raises(InvalidRequest):
        change_settings(spool, ORDERS, {"delay": "6", "ttl": "-1"})

    assert settings_in(spool, ORDERS) == QueueSettings(delay_seconds=5.0)


def test_no_queue_no_settings(spool: Spool) -> None:
    with pytest.raises(FileNotFoundError):
        change_settings(spool, QueueName("nowhere"), {"delay": "5"})
    with pytest.raises(FileNotFoundError):
        settings_in(spool, QueueName("nowhere"))


def test_a_crash_at_each_call_leaves_the_old_or_the_new_ones(
    open_spool: Callable[[WatchedFiles], Spool], spool: Spool, orders: Path
) -> None:
    old, new = QueueSettings(delay_seconds=5.0), QueueSettings(delay_seconds=5.0, ttl_seconds=60.0)
    seen = []
    for calls in range(12):
        (orders / ".settings").write_text(old.text())
        mortal = MortalFiles()
        dying = open_spool(mortal)
        mortal.calls_left = calls
        with suppress(OSError):
            change_settings(dying, ORDERS, {"ttl": "60"})
        mortal.calls_left = 0
        dying.close()

        alive = open_spool(WatchedFiles())
        seen.append(settings_in(alive, ORDERS))
        Sweeper(alive, lambda *_: None).sweep()
        assert os.listdir(alive.root / "new") == []
        assert os.listdir(orders) == [".settings"]
        alive.close()

    assert seen[0] == old
    assert seen[-1] == new
    assert [each in (old, new) for each in seen] == [True] * 12
    assert seen == sorted(seen, key=lambda each: each == new)


@pytest.mark.parametrize("call", ["open_unnamed", "write", "sync", "link", "replace"])
def test_an_error_of_the_disk_leaves_the_settings_as_they_were(
    spool: Spool, files: WatchedFiles, call: str
) -> None:
    change_settings(spool, ORDERS, {"delay": "5"})
    files.fail(call, code=errno.ENOSPC)

    with pytest.raises(OSError, match="No space"):
        change_settings(spool, ORDERS, {"delay": "6"})

    assert settings_in(spool, ORDERS).delay_seconds == 5
    assert os.listdir(spool.root / "new") == []


def test_a_sweep_that_comes_before_the_lock_takes_nothing_away(
    open_spool: Callable[[WatchedFiles], Spool], spool: Spool, files: WatchedFiles
) -> None:
    sweeper = Sweeper(open_spool(WatchedFiles()), lambda *_: None)

    def sweep_once(*_: object) -> None:
        del files.before["lock"]
        sweeper.sweep()

    files.before["lock"] = sweep_once
    change_settings(spool, ORDERS, {"delay": "5"})

    assert "lock" not in files.before
    assert settings_in(spool, ORDERS).delay_seconds == 5
    assert os.listdir(spool.root / "new") == []


def test_of_changes_at_the_same_time_none_is_lost(
    open_spool: Callable[[WatchedFiles], Spool], spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_file, "FOLDER_LOCK_SECONDS", 60.0)
    names = ["visibility", "delay", "max-receives", "max-messages", "ttl"]

    def change(name: str) -> None:
        another = open_spool(WatchedFiles())
        for number in range(1, 21):
            change_settings(another, ORDERS, {name: str(number)})

    threads = [threading.Thread(target=change, args=[name]) for name in names]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert settings_in(spool, ORDERS).document() == dict.fromkeys(names, 20)


def test_who_changes_them_for_too_long_keeps_nobody_waiting_for_ever(
    spool: Spool, open_spool: Callable[[WatchedFiles], Spool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_file, "FOLDER_LOCK_SECONDS", 0.01)

    with (
        settings_lock(open_spool(WatchedFiles()), ORDERS),
        pytest.raises(BlockingIOError, match="another process is changing"),
    ):
        change_settings(spool, ORDERS, {"delay": "5"})


def test_a_queue_that_is_deleted_meanwhile_has_no_settings(
    spool: Spool, files: WatchedFiles, orders: Path
) -> None:
    files.before["sync"] = lambda *_: (
        orders.exists() and orders.rename(spool.root / "remove" / "orders:.deleting")
    )

    with pytest.raises(FileNotFoundError):
        change_settings(spool, ORDERS, {"delay": "5"})
