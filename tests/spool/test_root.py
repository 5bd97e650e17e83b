"""What a folder must be before a server runs on it."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.errors import ExitCode, StartRefused
from mq.lifecycle import FIXED_FOLDERS, Actor, Folder
from mq.spool.file_system import FileSystem, file_system_kind
from mq.spool.root import open_root, visit_root
from mq.spool.sets import make_set
from mq.spool.sweep import Sweeper
from tests.support.faults import PlainFiles, WatchedFiles
from tests.support.messages import names_in, write_message
from tests.support.users import NOBODY, needs_root


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder on another file system than the temporary one, which everybody may enter."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no /dev/shm here")
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def _open(root: Path, files: Files | None = None, mode: int = 0o700) -> FileSystem:
    spool, file_system = open_root(root, mode, files or WatchedFiles())
    assert spool.has_seals == file_system.has_seals
    spool.close()
    return file_system


def _refusal(root: Path, files: Files | None = None) -> tuple[ExitCode, str]:
    with pytest.raises(StartRefused) as refused:
        _open(root, files)
    assert str(root) in str(refused.value)
    return refused.value.exit_code, str(refused.value)


def test_tree_is_made_where_it_is_missing(tmp_path: Path) -> None:
    root = tmp_path / "srv" / "mq"
    _open(root, mode=0o750)

    assert names_in(root) == ["delay", "format", "new", "queues", "remove"]
    for folder in (root, *(root / name for name in FIXED_FOLDERS)):
        assert folder.stat().st_mode & 0o777 == 0o750 & ~_umask()
    assert (root / "format").read_text() == "mq 1\n"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_tree_that_is_there_is_taken_as_it_is(root: Path) -> None:
    _open(root)
    message = write_message(root / "delay" / "orders:1")
    root.chmod(0o755)

    _open(root)

    assert message.exists()
    assert root.stat().st_mode & 0o777 == 0o755


def test_many_servers_start_at_once_on_a_new_root(root: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        systems = list(threads.map(lambda _: _open(root), range(8)))

    assert len(set(systems)) == 1
    assert names_in(root) == ["delay", "format", "new", "queues", "remove"]
    assert os.listdir(root / "new") == os.listdir(root / "delay") == []


def test_start_leaves_nothing_but_a_hidden_file_for_the_reaper(root: Path) -> None:
    _open(root)

    (probe,) = os.listdir(root / "remove")
    assert probe.startswith(".")
    assert [os.listdir(root / name) for name in ("new", "queues", "delay")] == [[], [], []]


def test_sweep_of_another_server_does_not_take_the_probe(root: Path) -> None:
    other, _ = open_root(root, 0o700, WatchedFiles())
    files = WatchedFiles()
    sweeper = Sweeper(other, lambda name, why: pytest.fail(f"{name}: {why}"))
    files.before["rename"] = lambda *_: sweeper.sweep()

    _open(root, files)

    other.close()
    assert len(os.listdir(root / "remove")) == 2


@pytest.mark.parametrize("content", ["mq 3\n", "mq 10", "something else", "\xff"])
def test_root_of_an_unknown_format_is_refused(root: Path, content: str) -> None:
    _open(root)
    (root / "format").write_text(content, encoding="latin-1")

    code, text = _refusal(root)

    assert code is ExitCode.FORMAT
    assert "this server knows 'mq 1'" in text


def test_file_in_place_of_a_folder_is_refused(root: Path) -> None:
    root.mkdir()
    write_message(root / "delay")

    assert _refusal(root)[0] is ExitCode.ROOT


@pytest.mark.parametrize("name", FIXED_FOLDERS)
def test_link_in_place_of_a_folder_is_refused_by_name(
    root: Path, tmp_path: Path, name: str
) -> None:
    _open(root)
    (root / name).rename(tmp_path / "elsewhere")
    (root / name).symlink_to(tmp_path / "elsewhere")

    code, text = _refusal(root)

    assert code is ExitCode.ROOT
    assert text.endswith(
        f"{root / name} is a link; move the folder that it leads to into its place"
    )


def test_folders_on_different_file_systems_are_refused_by_name(root: Path, memory: Path) -> None:
    root.mkdir()
    if root.stat().st_dev == memory.stat().st_dev:
        pytest.skip("the temporary folder is on /dev/shm itself")
    (root / "delay").symlink_to(memory)

    code, text = _refusal(root)

    assert code is ExitCode.FOLDERS
    assert "folders new+queues+remove and delay are on different file systems" in text


def test_link_planted_in_a_folder_of_everybody_is_refused(tmp_path: Path) -> None:
    shared, root = tmp_path / "shared", tmp_path / "root"
    shared.mkdir()
    link = shared / "mq"
    link.symlink_to(root)
    if os.geteuid() == 0:
        os.lchown(link, NOBODY, NOBODY)

    shared.chmod(0o1777)
    assert _refusal(link)[0] is ExitCode.OWNER
    assert _refusal(link / "below")[0] is ExitCode.OWNER
    assert not root.exists()

    shared.chmod(0o755)
    root.mkdir()
    _open(link)


@needs_root
def test_root_of_another_user_is_refused(memory: Path) -> None:
    _open(memory / "root", mode=0o755)

    os.seteuid(NOBODY)
    try:
        assert _refusal(memory / "root")[0] is ExitCode.OWNER
    finally:
        os.seteuid(0)


@needs_root
@pytest.mark.parametrize("folder", ["", "queues", "new"])
def test_root_that_an_ordinary_user_made_is_refused_for_the_user_root(
    root: Path, folder: str
) -> None:
    _open(root)
    os.chown(root / folder, NOBODY, NOBODY)

    assert _refusal(root)[0] is ExitCode.OWNER
    with pytest.raises(StartRefused):
        visit_root(root, Files(), Actor.SERVER)


@pytest.mark.parametrize(("mode", "keeps"), [(0o700, False), (0o755, False), (0o770, True)])
def test_where_others_may_write_they_rename_no_folder_of_ours(
    root: Path, mode: int, keeps: bool
) -> None:
    umask = os.umask(0)
    try:
        spool, _ = open_root(root, mode, Files())
        spool.fd(Folder.SPARK)
        make_set(spool, Folder.NEW, ".orders:1.open")
        spool.close()
    finally:
        os.umask(umask)

    folders = ("", "new", "queues", "spark", "new/.orders:1.open")
    modes = {(root / folder).stat().st_mode & 0o7777 for folder in folders}
    assert modes == {mode | stat.S_ISVTX if keeps else mode}
    assert (root / "delay").stat().st_mode & 0o7777 == mode


def test_a_root_of_before_gets_the_sticky_bit(root: Path) -> None:
    _open(root)
    (root / "queues").chmod(0o777)

    _open(root)

    assert (root / "queues").stat().st_mode & 0o7777 == 0o1777


def test_format_file_that_is_a_link_is_not_read(root: Path, tmp_path: Path) -> None:
    _open(root)
    secret = write_message(tmp_path / "secret", b"a secret")
    (root / "format").unlink()
    (root / "format").symlink_to(secret)

    assert "a secret" not in _refusal(root)[1]


# What the file system does


@pytest.mark.parametrize("step_ns", [1, 100, 1_000, 1_000_000, 1_000_000_000, 2_000_000_000])
def test_granularity_of_stamps_is_measured(root: Path, step_ns: int) -> None:
    class CoarseFiles(WatchedFiles):
        def stamp(self, fd: int, mtime_ns: int) -> None:
            super().stamp(fd, mtime_ns // step_ns * step_ns)

    assert _open(root, CoarseFiles()).stamp_granularity_ns == step_ns


@pytest.mark.parametrize("call", ["open_unnamed", "set_attribute", "stamp", "link", "rename_once"])
def test_a_root_on_a_full_disk_is_opened(root: Path, call: str) -> None:
    before = _open(root)
    times = root.stat().st_mtime_ns
    files = WatchedFiles()
    files.fail(call, code=errno.ENOSPC, times=2 if call == "open_unnamed" else 1)

    assert _open(root, files) == before
    assert root.stat().st_mtime_ns == times


def test_error_of_an_open_file_names_the_root(root: Path) -> None:
    class NoStamps(WatchedFiles):
        def stamp(self, fd: int, mtime_ns: int) -> None:
            raise OSError(errno.EIO, "Input/output error", fd)

    assert f"Input/output error: {root};" in _refusal(root, NoStamps())[1]


def test_file_system_without_attributes_is_taken_with_a_warning(root: Path) -> None:
    file_system = _open(root, PlainFiles())

    assert not file_system.has_seals
    assert any("no user extended attributes" in warning for warning in file_system.warnings)


def test_attribute_that_cannot_be_written_just_now_is_no_reason_to_do_without(root: Path) -> None:
    files = WatchedFiles()
    files.fail("set_attribute", code=errno.EIO)

    with pytest.raises(StartRefused, match="Input/output error"):
        _open(root, files)


def test_a_file_system_in_memory_is_reported(memory: Path) -> None:
    file_system = _open(memory / "root")

    assert file_system.is_in_memory
    assert any("keeps nothing over a power cut" in warning for warning in file_system.warnings)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("name", ["plain", "with space", "back\\slash", "ümläut", "line\nend"])
def test_mount_is_found_whatever_its_name(tmp_path: Path, name: str) -> None:
    point = tmp_path / name
    point.mkdir()
    subprocess.run(["mount", "-t", "ramfs", "none", str(point)], check=True)
    try:
        assert file_system_kind(point) == "ramfs"
        assert file_system_kind(tmp_path) != "ramfs"
    finally:
        subprocess.run(["umount", str(point)], check=True)
