"""What a process knows of settings: it follows every change, and looks no more than it must."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from mq.disk.status import SAME_TICK_NS
from mq.names import QueueName
from mq.spool.queue import known_settings
from mq.spool.queue.known_settings import KnownSettings
from mq.spool.queue.queue_settings import NO_SETTINGS, QueueSettings
from mq.spool.queue.settings_file import (
    MAX_SETTINGS_BYTES,
    SETTINGS_FILE,
    SettingsRead,
    change_settings,
    read_settings,
)
from mq.spool.spool import Spool
from tests.support.faults import WatchedFiles

ORDERS = QueueName("orders")


def _wait_for_the_next_tick() -> None:
    """Wait until a change is sure to leave other times than those that are there."""
    time.sleep(1.5 * SAME_TICK_NS / 1e9)


@pytest.fixture
def reports() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def known(
    spool: Spool, reports: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> KnownSettings:
    """Looks whenever it is asked."""
    monkeypatch.setattr(known_settings, "SETTINGS_LOOK_SECONDS", 0.0)
    return KnownSettings(spool.files, spool.queues, lambda *each: reports.append(each))


def test_it_follows_every_way_to_change_the_file(known: KnownSettings, orders: Path) -> None:
    path = orders / SETTINGS_FILE
    assert known.of(ORDERS) == NO_SETTINGS
    path.write_text("delay=5\n")
    assert known.of(ORDERS).delay_seconds == 5
    path.write_text("delay=6\n")  # in place, within the same tick, of the same length
    assert known.of(ORDERS).delay_seconds == 6
    (orders / ".other").write_text("delay=7\n")
    (orders / ".other").rename(path)
    assert known.of(ORDERS).delay_seconds == 7
    path.unlink()
    assert known.of(ORDERS) == NO_SETTINGS


def test_a_file_that_stays_is_not_read_again(
    known: KnownSettings, files: WatchedFiles, orders: Path
) -> None:
    (orders / SETTINGS_FILE).write_text("delay=5\n")
    _wait_for_the_next_tick()
    known.of(ORDERS)
    reads = files.calls["read"]

    assert [known.of(ORDERS).delay_seconds for _ in range(5)] == [5] * 5
    assert files.calls["read"] == reads


def test_a_folder_without_settings_that_stays_is_not_opened(
    known: KnownSettings, spool: Spool, files: WatchedFiles, orders: Path
) -> None:
    """One look at the folder finds out that no settings have come: many queues are idle."""
    _wait_for_the_next_tick()
    known.of(ORDERS)
    spool.queues.close()
    files.calls.clear()

    assert [known.of(ORDERS) for _ in range(5)] == [NO_SETTINGS] * 5
    assert files.calls == {"status_of": 5}


def test_what_comes_into_a_folder_that_stayed_is_seen(known: KnownSettings, orders: Path) -> None:
    _wait_for_the_next_tick()
    assert known.of(ORDERS) == NO_SETTINGS
    before = orders.stat()
    (orders / SETTINGS_FILE).write_text("delay=5\n")
    os.utime(orders, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert known.of(ORDERS).delay_seconds == 5
    (orders / SETTINGS_FILE).unlink()
    _wait_for_the_next_tick()
    assert known.of(ORDERS) == NO_SETTINGS
    orders.rmdir()
    assert known.of(ORDERS) == NO_SETTINGS
    orders.mkdir()
    (orders / SETTINGS_FILE).write_text("delay=6\n")
    assert known.of(ORDERS).delay_seconds == 6


def test_within_the_time_it_does_not_even_look(spool: Spool, orders: Path) -> None:
    known = KnownSettings(spool.files, spool.queues, lambda *_: None)
    assert known.of(ORDERS) == NO_SETTINGS
    (orders / SETTINGS_FILE).write_text("delay=5\n")
    assert known.of(ORDERS) == NO_SETTINGS

    known.forget(ORDERS)

    assert known.of(ORDERS).delay_seconds == 5


def test_changes_are_reported_once(known: KnownSettings, orders: Path) -> None:
    told: list[QueueName] = []
    known.changed = told.append
    known.of(ORDERS)
    (orders / SETTINGS_FILE).write_text("paused=true\n")
    known.of(ORDERS)
    known.of(ORDERS)
    assert told == [ORDERS]

    (orders / SETTINGS_FILE).unlink()
    known.of(ORDERS)

    assert told == [ORDERS, ORDERS]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"delay=5\nttl=x\n", "ttl='x'"),
        (b"delay=5\n\xff\n", "utf-8"),
        (b"#" * (MAX_SETTINGS_BYTES + 1), "more than"),
        (b"paused\n", "line 1"),
    ],
)
def test_a_damaged_file_is_reported_once_and_counts_as_empty(
    known: KnownSettings, reports: list[tuple[str, str]], spool: Spool, text: bytes, why: str
) -> None:
    orders = spool.root / "queues" / "orders"
    (orders / SETTINGS_FILE).write_bytes(text)

    assert [known.of(ORDERS) for _ in range(3)] == [NO_SETTINGS] * 3
    assert [name for name, _ in reports] == ["queues/orders/.settings"]
    assert why in reports[0][1]
    change_settings(spool, ORDERS, {"delay": "5"})
    assert known.of(ORDERS) == QueueSettings(delay_seconds=5.0)
    (orders / SETTINGS_FILE).write_bytes(text)
    known.of(ORDERS)
    assert len(reports) == 2


def test_what_another_user_or_a_link_says_does_not_count(
    known: KnownSettings, reports: list[tuple[str, str]], orders: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").write_text("delay=5\n")
    (orders / SETTINGS_FILE).symlink_to(tmp_path / "elsewhere")
    assert known.of(ORDERS) == NO_SETTINGS
    (orders / SETTINGS_FILE).unlink()
    os.mkfifo(orders / SETTINGS_FILE)
    assert known.of(ORDERS) == NO_SETTINGS
    assert len(reports) == 2
    if os.geteuid() == 0:
        (orders / SETTINGS_FILE).unlink()
        (orders / SETTINGS_FILE).write_text("delay=5\n")
        os.chown(orders / SETTINGS_FILE, 12345, 12345)
        assert known.of(ORDERS) == NO_SETTINGS


def test_an_error_of_the_disk_says_nothing_of_the_settings(
    known: KnownSettings, files: WatchedFiles, reports: list[tuple[str, str]], orders: Path
) -> None:
    (orders / SETTINGS_FILE).write_text("paused=true\n")
    assert known.of(ORDERS).paused
    files.fail("read", times=2)

    assert known.of(ORDERS).paused
    assert "cannot be read" in reports[0][1]


def test_a_file_that_can_be_read_at_the_second_try_counts_at_the_first_look(
    known: KnownSettings, files: WatchedFiles, reports: list[tuple[str, str]], orders: Path
) -> None:
    (orders / SETTINGS_FILE).write_text("paused=true\n")
    files.fail("open_to_look")

    assert known.of(ORDERS).paused
    assert reports == []


def test_a_file_of_which_nothing_is_known_is_not_taken_for_empty(
    known: KnownSettings, files: WatchedFiles, orders: Path
) -> None:
    """This process has too many files open: that says nothing of the file."""
    (orders / SETTINGS_FILE).write_text("paused=true\n")
    files.fail("open_to_look", code=errno.EMFILE)

    with pytest.raises(OSError, match="Too many open files"):
        known.of(ORDERS)

    assert known.of(ORDERS).paused


@pytest.mark.parametrize("were_known", [True, False])
@pytest.mark.parametrize("is_seen_by_others", [True, False])
def test_a_look_of_another_thread_does_not_undo_a_change_that_was_made_meanwhile(
    spool: Spool,
    orders: Path,
    monkeypatch: pytest.MonkeyPatch,
    were_known: bool,
    is_seen_by_others: bool,
) -> None:
    """The look began before the change, and ends before or after others look."""
    known = KnownSettings(spool.files, spool.queues, lambda *_: None)
    change_settings(spool, ORDERS, {"delay": "5"})
    if were_known:
        known.of(ORDERS)
        known.forget(ORDERS)

    def read_before_a_change(*arguments: Any) -> SettingsRead:
        monkeypatch.setattr(known_settings, "read_settings", read_settings)
        found = read_settings(*arguments)
        change_settings(spool, ORDERS, {"delay": "6"})
        known.forget(ORDERS)
        if is_seen_by_others:
            assert known.of(ORDERS).delay_seconds == 6
        return found

    monkeypatch.setattr(known_settings, "read_settings", read_before_a_change)
    assert known.of(ORDERS).delay_seconds == 5

    assert known.of(ORDERS).delay_seconds == 6


def test_a_look_that_was_just_found_good_does_not_undo_a_change_either(
    spool: Spool, orders: Path
) -> None:
    known = KnownSettings(spool.files, spool.queues, lambda *_: None)
    changes = ["6"]

    class Known(dict[str, Any]):
        """What is known. Before the first look is kept, another thread notes a change."""

        def __setitem__(self, queue: str, found: object) -> None:
            if changes:
                change_settings(spool, ORDERS, {"delay": changes.pop()})
                known.forget(ORDERS)
            super().__setitem__(queue, found)

    known._known = Known()
    change_settings(spool, ORDERS, {"delay": "5"})
    assert known.of(ORDERS).delay_seconds == 5

    assert known.of(ORDERS).delay_seconds == 6
