"""fsck: the file `.settings` of a queue."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.fsck.check import Check, mend, report
from mq.names import QueueName
from mq.spool.queue import settings_file
from mq.spool.spool import Spool
from tests.support.faults import WatchedFiles
from tests.support.fsck import Fsck
from tests.support.lone_root import make_root
from tests.support.users import NOBODY, needs_root

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


@needs_root
@pytest.mark.parametrize(
    ("owner", "mode", "detail", "repair"),
    [
        (0, 0o600, "belongs to user 0", None),
        (NOBODY, 0o000, "mode 0000 shuts its owner out", "mode 0600"),
    ],
)
def test_settings_that_their_server_may_not_read_are_found(
    public_folder: Path, owner: int, mode: int, detail: str, repair: str | None
) -> None:
    root = public_folder / "root"
    make_root(root, "orders")
    path = root / "queues/orders/.settings"
    path.write_text("paused=true\n")
    for each in (root, *root.rglob("*")):
        os.chown(each, NOBODY, NOBODY)
    os.chown(path, owner, owner)
    path.chmod(mode)

    os.seteuid(NOBODY)
    try:
        reported, mended = (
            list(Check(root, Files(), treat, lambda *_: None, settle_seconds=0).run())
            for treat in (report, mend)
        )
    finally:
        os.seteuid(0)

    for [found] in (reported, mended):
        assert (found.kind, found.path) == ("mode", "queues/orders/.settings")
        assert detail in found.detail
    assert mended[0].repair == repair


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
