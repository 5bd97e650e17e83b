"""Whose the files are that `mqctl --root` makes, and who may read them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.errors import ExitCode
from mq.spool.root import open_root
from tests.support.mqctl import Ctl
from tests.support.users import NOBODY, needs_root


@pytest.fixture
def foreign_root(public_folder: Path) -> Path:
    """A root of another user, with one queue."""
    root = public_folder / "root"
    Ctl("--root", str(root)).ok("create", "orders")
    for path in (root, *root.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
        path.chmod(0o770)
    return root


@needs_root
def test_what_root_sends_belongs_to_the_owner_of_the_folders(foreign_root: Path) -> None:
    root, ctl = foreign_root, Ctl("--root", str(foreign_root))

    ctl.ok("create", "returns")
    ctl.ok("send", "orders", "body")
    (root / "new" / "README").touch()
    ctl.ok("fsck", "--repair")

    made = [path for path in root.rglob("*") if path.name != "README"]
    assert {path.stat().st_uid for path in made} == {NOBODY}
    (message,) = (root / "queues" / "orders").iterdir()
    assert message.stat().st_mode & 0o777 == 0o660


@needs_root
def test_what_root_receives_goes_where_only_root_may_write(
    foreign_root: Path, tmp_path: Path
) -> None:
    ctl, private = Ctl("--root", str(foreign_root)), tmp_path / "private"
    private.mkdir(0o700)
    ctl.ok("send", "orders", "body")

    ctl.ok("recv", "orders", "--ack", "-o", str(private / "body"))
    found_nothing = ctl("recv", "orders", "-o", str(private / "nothing"))

    assert (private / "body").read_bytes() == b"body"
    assert ctl.ok("info", "orders", "--json").json()["leased"] == 0
    assert found_nothing == (ExitCode.EMPTY, b"", "")
    assert list(private.iterdir()) == [private / "body"]


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
