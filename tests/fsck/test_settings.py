"""fsck: the file `.settings` of a queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from mq.spool.folders import Spool
from tests.support.fsck import Fsck


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
