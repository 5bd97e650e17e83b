"""Whose the files are that `mqctl --root` makes, and who may read them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.spool.root import open_root
from tests.support.mqctl import Ctl
from tests.support.users import NOBODY, needs_root


@needs_root
def test_what_root_sends_belongs_to_the_owner_of_the_folders(public_folder: Path) -> None:
    root = public_folder / "root"
    ctl = Ctl("--root", str(root))
    ctl.ok("create", "orders")
    for path in (root, *root.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
        path.chmod(0o770)

    ctl.ok("create", "returns")
    ctl.ok("send", "orders", "body")
    (root / "new" / "README").touch()
    ctl.ok("fsck", "--repair")

    made = [path for path in root.rglob("*") if path.name != "README"]
    assert {path.stat().st_uid for path in made} == {NOBODY}
    (message,) = (root / "queues" / "orders").iterdir()
    assert message.stat().st_mode & 0o777 == 0o660


@pytest.mark.parametrize("made_by", ["mq", "mqctl"])
def test_what_is_sent_into_a_root_that_all_may_enter_is_no_one_elses_to_read(
    tmp_path: Path, made_by: str
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(0o755)
    ctl = Ctl("--root", str(root))
    if made_by == "mq":
        open_root(root, 0o700, Files())[0].close()
    ctl.ok("create", "orders")

    ctl.ok("send", "orders", "body")

    (message,) = (root / "queues" / "orders").iterdir()
    assert message.stat().st_mode & 0o777 == 0o600
    assert (root / "queues" / "orders").stat().st_mode & 0o777 == 0o700
