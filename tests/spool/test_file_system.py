"""What a server finds out of the file system of its root."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.errors import StartRefused
from mq.lifecycle import Folder
from mq.spool.file_system import file_system_kind, keeps_order, nearest_folder
from mq.spool.root import open_root
from tests.support.faults import raising
from tests.support.messages import SECOND_NS
from tests.support.users import needs_root

NO_JOURNAL = "this ext4 has no journal, and is not known to"


@pytest.mark.parametrize(
    ("make", "why", "has_one_log"),
    [
        (("ext4", 16), None, True),
        (("ext4", 16, "-O", "^has_journal"), NO_JOURNAL, False),
        (("xfs", 320), None, True),
        (("btrfs", 128), None, False),
    ],
)
def test_only_a_file_system_that_may_lose_order_is_warned_of(
    loop_mount: Callable[..., Path],
    make: tuple[str, int],
    why: str | None,
    has_one_log: bool,
) -> None:
    spool, file_system = open_root(loop_mount(*make) / "root", 0o700, Files())

    with closing(spool):
        assert spool.has_one_log is has_one_log
        assert spool.has_data_log is (has_one_log and make[0] == "ext4")
        assert (file_system.kind, file_system.is_in_memory) == (make[0], False)
        assert [why for _ in file_system.warnings] == ([] if why is None else [why])
        assert all(warning.startswith(str(why)) for warning in file_system.warnings)


@pytest.mark.parametrize("kind", ["ext4", "btrfs"])
def test_a_file_system_without_barriers_is_warned_of(
    loop_mount: Callable[..., Path], kind: str
) -> None:
    mounted = loop_mount(kind, 128, mount=("nobarrier",))
    spool, file_system = open_root(mounted / "root", 0o700, Files())
    spool.close()

    [warning] = file_system.warnings

    assert warning.startswith(f"this {kind} is mounted with nobarrier: unless")


@needs_root
@pytest.mark.parametrize("name", ["a\rb", "c - d", "e\x0bf\x1c", "g\nh", "\udcff"])
def test_a_mount_of_any_name_hides_no_other(tmp_path: Path, name: str) -> None:
    odd = tmp_path / name
    odd.mkdir()
    before = file_system_kind(tmp_path)
    subprocess.run(["mount", "-t", "tmpfs", "mq-odd", odd], check=True)
    try:
        assert file_system_kind(odd) == "tmpfs"
        assert file_system_kind(tmp_path) == before
    finally:
        subprocess.run(["umount", odd], check=True)


@pytest.fixture
def warnings_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], list[str]]:
    """The warnings of a root where `tmp_path/tmp` is the folder for temporary files."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("mq.spool.file_system._TEMPORARY", (str(tmp_path / "tmp"),))

    def find(root: Path) -> list[str]:
        spool, file_system = open_root(root, 0o700, Files())
        spool.close()
        return [each for each in file_system.warnings if "--root" in each]

    return find


def test_a_root_that_the_system_may_empty_is_warned_of(
    tmp_path: Path, warnings_of: Callable[[Path], list[str]]
) -> None:
    """The default root is in such a folder."""
    [warning] = warnings_of(tmp_path / "tmp" / "mq")

    assert warning.startswith(f"many systems empty {tmp_path}/tmp when they boot")
    assert warnings_of(tmp_path / "mq") == []


@needs_root
def test_what_is_mounted_in_a_folder_that_is_emptied_stays(
    tmp_path: Path, warnings_of: Callable[[Path], list[str]]
) -> None:
    mounted = tmp_path / "tmp" / "disk"
    mounted.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "mq-disk", mounted], check=True)
    try:
        assert warnings_of(mounted / "mq") == []
    finally:
        subprocess.run(["umount", mounted], check=True)


@pytest.mark.parametrize(("behind_seconds", "is_warned_of"), [(60, True), (0, False), (-60, False)])
def test_a_file_server_whose_clock_is_ahead_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind_seconds: int, is_warned_of: bool
) -> None:
    true_ns = time.time_ns
    monkeypatch.setattr("mq.spool.file_system.file_system_kind", lambda _: "nfs4")
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() - behind_seconds * SECOND_NS)
    spool, file_system = open_root(tmp_path / "root", 0o700, Files())
    spool.close()

    about_clocks = [each for each in file_system.warnings if "clock" in each]

    assert [f"{behind_seconds} seconds ahead" in each for each in about_clocks] == (
        [True] * is_warned_of
    )


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ENOTCONN, errno.ESTALE])
def test_a_folder_that_cannot_be_looked_at_counts_as_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """What opens it says what is wrong. One above it may be of another file system."""
    root = tmp_path / "root"
    assert nearest_folder(root) == tmp_path

    monkeypatch.setattr(os, "stat", raising(code))

    assert nearest_folder(root) == root


@needs_root
def test_a_missing_journal_is_seen_whatever_the_disk_is_called(tmp_path: Path) -> None:
    """A container may have another name for the disk that was mounted, or none."""
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("mkfs.ext4 is missing: install the package e2fsprogs")
    image, disk, mounted = tmp_path / "image", tmp_path / "disk", tmp_path / "mounted"
    image.write_bytes(b"")
    os.truncate(image, 16 << 20)
    mounted.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", image], check=True)
    found = subprocess.run(["losetup", "-f", "--show", image], check=True, capture_output=True)
    loop = found.stdout.decode().strip()
    try:
        os.mknod(disk, stat.S_IFBLK | 0o600, os.stat(loop).st_rdev)
        if subprocess.run(["mount", disk, mounted], check=False).returncode:
            pytest.skip("no device can be opened in the temporary folder")
        try:
            assert not keeps_order(mounted, "ext4")
        finally:
            subprocess.run(["umount", mounted], check=True)
    finally:
        subprocess.run(["losetup", "-d", loop], check=True)


@needs_root
@pytest.mark.parametrize("name", [Folder.CORRUPT, Folder.SPARK])
def test_a_folder_that_was_made_later_is_on_the_same_one(root: Path, name: str) -> None:
    open_root(root, 0o700, Files())[0].close()
    (root / name).mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", root / name], check=True)
    try:
        with pytest.raises(StartRefused, match=f"remove and {name} are on different file systems"):
            open_root(root, 0o700, Files())
    finally:
        subprocess.run(["umount", "--lazy", root / name], check=True)
