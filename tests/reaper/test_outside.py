"""A reaper outside of a root: on removed messages, and on nothing that a person may miss."""

from __future__ import annotations

import os
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from mq.config import ReaperConfig
from mq.disk.files import Files
from mq.errors import ExitCode, StartRefused
from mq.spool.root import PROBE_PREFIX, open_root
from mq.spool.root_format import FORMAT_FILE
from mq_reaper.reaper import Reaper
from tests.support.messages import write_message
from tests.support.refusals import start


def reaped(folder: Path) -> int:
    with closing(Reaper(ReaperConfig(folder), Files())) as reaper:
        return reaper.reap()


@pytest.mark.parametrize("name", ["home", "remove"])
@pytest.mark.parametrize("file", ["thesis.txt", ".bashrc", "1"])
def test_a_folder_with_other_files_is_refused_and_kept(
    tmp_path: Path, name: str, file: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    write_message(folder / "orders:1")
    write_message(folder / file)

    with pytest.raises(StartRefused, match="not in a root of MQ and holds") as refused:
        reaped(folder)

    assert refused.value.exit_code is ExitCode.FOLDERS
    assert repr(file) in str(refused.value)
    assert sorted(os.listdir(folder)) == sorted([file, "orders:1"])


def test_an_empty_folder_with_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match=r"is not called remove; .* give ROOT/remove"):
        reaped(tmp_path)


def test_remove_of_a_root_that_no_server_has_opened_is_reaped_whole(tmp_path: Path) -> None:
    for name in ("new", "queues", "delay", "remove"):
        (tmp_path / name).mkdir()
    for name in ("orders:1", "of the original"):
        write_message(tmp_path / "remove" / name)

    assert reaped(tmp_path / "remove") == 2


def test_remove_alone_is_reaped_wherever_it_is_mounted(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "orders:.0123").mkdir(parents=True)
    for name in ("orders:1", "orders:1~2", ".probe-1+:abc", "orders.dead:2", "orders:.0123/3"):
        write_message(folder / name)
    (tmp_path / "remove").mkdir()

    assert reaped(folder) == 5
    assert reaped(tmp_path / "remove") == 0


@pytest.mark.parametrize(("folder", "name"), [("remove", "list.txt"), ("new", ".env")])
def test_a_server_makes_no_root_around_what_would_be_unlinked(
    tmp_path: Path, folder: str, name: str
) -> None:
    """A home folder may have a folder of that name."""
    (tmp_path / folder).mkdir()
    (tmp_path / folder / name).write_text("mine")

    refusal = start("mq", f"--root={tmp_path}", "--port=0")

    assert refusal.exit_code == ExitCode.FOLDERS
    assert f"its folder {folder} has '{name}' in it, which would be unlinked" in refusal.line
    assert [each.name for each in tmp_path.iterdir()] == [folder]


def test_a_root_that_has_lost_its_format_is_made_one_again(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for folder in ("remove", "new"):
        (root / folder).mkdir(parents=True)
        for name in ("orders:1", "orders:.purged", f"{PROBE_PREFIX}1-2"):
            (root / folder / name).touch()
    for name in (f".{uuid.uuid4()}", ".0123456789abcdef", f".orders:{uuid.uuid4()}.open"):
        (root / "new" / name).touch()

    open_root(root, 0o700, Files())[0].close()

    assert (root / FORMAT_FILE).exists()
