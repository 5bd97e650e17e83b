"""fsck: the file `.settings` of a queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from mq.names import QueueName
from mq.spool.folders import Spool
from mq.spool.queue import settings_file
from tests.support.faults import WatchedFiles
from tests.support.fsck import Fsck

ORDERS = QueueName("orders")


@pytest.fixture
def fsck(spool: Spool) -> Fsck:
    return Fsck(spool)


def test_settings_that_can_be_read_are_no_finding(fsck: Fsck, orders: Path) -> None:
    (orders / ".settings").write_text("# by hand\nvisibility=60\n")

    assert fsck.mend() == []


@pytest.mark.parametrize("text", ["visibility=soon\n", "colour=red\n", "ttl\n"])
def test_settings_that_count_as_empty_are_set_aside(
    fsck: Fsck, root: Path, orders: Path, text: str
) -> None:
    (orders / ".settings").write_text(text)

    fsck.assert_mends(
        "settings", "queues/orders/.settings", "counts as empty", "corrupt/orders:.settings"
    )

    assert (root / "corrupt" / "orders:.settings").read_text() == text
    assert not (orders / ".settings").exists()


def test_a_link_in_its_place_is_set_aside_and_not_followed(
    fsck: Fsck, orders: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").write_text("visibility=60\n")
    (orders / ".settings").symlink_to(tmp_path / "elsewhere")

    fsck.assert_mends("settings", "queues/orders/.settings", "a link", "corrupt/orders:.settings")

    assert (tmp_path / "elsewhere").exists()


def test_good_settings_that_come_between_look_and_move_are_not_set_aside(
    fsck: Fsck, spool: Spool, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_file, "FOLDER_LOCK_SECONDS", 0.01)
    (orders / ".settings").write_text("colour=red\n")
    files, refused = WatchedFiles(), list[OSError]()

    def change(*_: object) -> None:
        try:
            settings_file.change_settings(spool, ORDERS, {"delay": "5"})
        except BlockingIOError as error:
            refused.append(error)

    files.before["rename"] = change
    fsck.files = lambda: files
    fsck.mend()

    assert refused or settings_file.settings_in(spool, ORDERS).delay_seconds == 5
