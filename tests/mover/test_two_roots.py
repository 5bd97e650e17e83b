"""A mover whose two folders are of different roots would take messages to a root where they were
never sent, and one of another user would make folders there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mq.config import MoverConfig
from mq.disk.files import Files
from mq.errors import ExitCode, StartRefused
from mq.spool.root import open_root
from mq_mover.mover import Mover
from tests.support.users import NOBODY, needs_root


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    roots = tmp_path / "shop", tmp_path / "test"
    for root in roots:
        open_root(root, 0o700, Files())[0].close()
    return roots


def test_folders_of_two_roots_are_refused(roots: tuple[Path, Path]) -> None:
    shop, test = roots

    with pytest.raises(StartRefused, match=f"give {shop}/delay and {shop}/queues") as refused:
        Mover(MoverConfig(shop / "delay", test / "queues"), Files())

    assert refused.value.exit_code == ExitCode.FOLDERS


def test_a_folder_outside_of_the_root_is_refused(roots: tuple[Path, Path], tmp_path: Path) -> None:
    shop, _ = roots
    outside = tmp_path / "queues"
    outside.mkdir()

    with pytest.raises(StartRefused, match="not of one root"):
        Mover(MoverConfig(shop / "delay", outside), Files())


def test_one_folder_for_both_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    for other in ("folder", "folder/../folder"):
        with pytest.raises(StartRefused, match="the same folder; give two") as refused:
            Mover(MoverConfig(tmp_path / "folder", tmp_path / other), Files())
        assert refused.value.exit_code == ExitCode.FOLDERS


def test_a_link_to_the_root_is_the_root(roots: tuple[Path, Path], tmp_path: Path) -> None:
    shop, _ = roots
    (tmp_path / "link").symlink_to(shop)

    Mover(MoverConfig(tmp_path / "link" / "delay", shop / "queues"), Files()).close()


def test_what_lies_outside_may_be_moved_into_a_root(
    roots: tuple[Path, Path], tmp_path: Path
) -> None:
    shop, _ = roots
    (tmp_path / "copy").mkdir()

    Mover(MoverConfig(tmp_path / "copy", shop / "queues"), Files()).close()


@needs_root
def test_the_root_of_another_user_is_refused_to_the_user_root(roots: tuple[Path, Path]) -> None:
    """A mover of the user root would make the folder for dead letters, which the owner could not
    enter."""
    shop, _ = roots
    os.chown(shop, NOBODY, NOBODY)

    with pytest.raises(StartRefused, match="run it as that user") as refused:
        Mover(MoverConfig(shop / "delay", shop / "queues"), Files())

    assert refused.value.exit_code is ExitCode.OWNER
