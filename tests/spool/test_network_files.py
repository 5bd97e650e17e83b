"""Files of a root that other hosts work on too: caches, lost replies, locks of folders, syncs."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from mq.disk.files import HIDDEN, Files
from mq.spool.message.held import Held, hold
from mq.spool.network_files import NetworkFiles, files_for
from tests.support.faults import LossyFiles, looks_of
from tests.support.messages import SECOND_NS


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "format").write_text("mq 1\n")
    (tmp_path / "one").write_text("one")
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def test_a_local_file_system_has_plain_files(tmp_path: Path) -> None:
    assert type(files_for(tmp_path / "not" / "made")) is Files


def test_looking_a_name_up_makes_no_file(tmp_path: Path, folder: int) -> None:
    files = NetworkFiles(tmp_path)
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()

    found = [files.exists(folder, name) for name in ("one", "none", "link", "folder")]

    assert found == [True, False, False, True]
    assert files.exists(None, str(tmp_path / "none/below")) is False
    assert sorted(os.listdir(tmp_path)) == ["folder", "format", "link", "one"]


@pytest.mark.parametrize(
    ("kind", "is_asked"), [("nfs4", False), ("lustre", False), ("fuse.glusterfs", True)]
)
def test_only_fuse_is_asked_in_a_way_that_others_take_for_a_new_name(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch, kind: str, *, is_asked: bool
) -> None:
    """Those say that every name is free that they have not cached."""

    def look_up(_: object, folder_fd: int | None, name: str) -> NoReturn:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)

    monkeypatch.setattr("mq.spool.network_files.file_system_kind", lambda _: kind)
    monkeypatch.setattr("mq.disk.libc.look_up", look_up)
    files = NetworkFiles(tmp_path)

    assert [files.exists(folder, name) for name in ("one", "none")] == [not is_asked, False]
    with pytest.raises(FileNotFoundError):
        files.status_of(folder, "one" if is_asked else "none")


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_rename_whose_reply_was_lost_is_recognised(
    tmp_path: Path, folder: int, is_plain: bool
) -> None:
    files = LossyFiles(tmp_path, is_plain)

    files.rename(folder, "one", folder, "two")

    assert sorted(os.listdir(tmp_path)) == ["format", "two"]


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_rename_replaces_nothing(tmp_path: Path, folder: int, is_plain: bool) -> None:
    files = LossyFiles(tmp_path, is_plain)
    (tmp_path / "two").write_text("two")

    with pytest.raises(FileExistsError):
        files.rename(folder, "one", folder, "two")
    with pytest.raises(FileNotFoundError):
        files.rename(folder, "none", folder, "two")

    assert (tmp_path / "one").read_text() == "one"
    assert (tmp_path / "two").read_text() == "two"


def test_what_another_process_moved_elsewhere_is_a_lost_race(tmp_path: Path, folder: int) -> None:
    """The name leads to another file by the time of the rename: this call has not moved that."""
    files = LossyFiles(tmp_path)

    class Elsewhere(NetworkFiles):
        def rename_once(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
            os.rename(tmp_path / "one", tmp_path / "three")
            raise FileNotFoundError(errno.ENOENT, source)

    with pytest.raises(FileNotFoundError):
        Elsewhere(tmp_path).rename(folder, "one", folder, "two")
    with pytest.raises(FileNotFoundError):
        files.rename(folder, "one", folder, "two")


def test_two_names_of_one_file_become_one(tmp_path: Path, folder: int) -> None:
    """A process of a version that links and unlinks stopped in between."""
    files = LossyFiles(tmp_path, is_plain=True)
    os.link(tmp_path / "one", tmp_path / "two")

    files.rename(folder, "one", folder, "two")

    assert sorted(os.listdir(tmp_path)) == ["format", "two"]


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_link_whose_reply_was_lost_is_recognised(
    tmp_path: Path, folder: int, is_plain: bool
) -> None:
    files = LossyFiles(tmp_path, is_plain)
    fd = files.open_unnamed(folder, 0o600)
    files.link(fd, folder, "two")

    if not is_plain:
        files.link(fd, folder, "two")  # sent again, because no answer came
    other = files.open_unnamed(folder, 0o600)
    with pytest.raises(FileExistsError):
        files.link(other, folder, "two")

    files.loses = False
    files.close(other)
    files.close(fd)
    assert sorted(os.listdir(tmp_path)) == ["format", "one", "two"]


def test_a_file_that_gets_its_name_later_has_a_hidden_one_until_then(
    tmp_path: Path, folder: int
) -> None:
    """JuiceFS 1.4.2 makes a file without a name, gives it one, and drops it as it is closed."""
    files = NetworkFiles(tmp_path)
    fd = files.open_unnamed(folder, 0o600)

    assert os.fstat(fd).st_nlink == 1
    (hidden,) = {*os.listdir(tmp_path)} - {"format", "one"}
    assert hidden.startswith(HIDDEN)

    files.link(fd, folder, "two")
    files.close(fd)
    assert sorted(os.listdir(tmp_path)) == ["format", "one", "two"]


def test_a_name_that_is_cached_as_missing_is_opened(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = NetworkFiles(tmp_path)
    look_up = files.look_up

    def look_up_late(folder_fd: int | None, name: str) -> None:
        (tmp_path / name).write_text("two")  # What another host made is seen from here on.
        look_up(folder_fd, name)

    monkeypatch.setattr(files, "look_up", look_up_late)

    with open(files.open_message(folder, "two")) as message:
        assert message.read() == "two"


def test_a_rename_asks_the_file_system_for_nothing_but_the_rename(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look costs as much as the rename. Without rename flags there is one, for the target."""
    files = LossyFiles(tmp_path, is_plain=True)
    files.loses = False
    looks = looks_of(files, monkeypatch)

    files.rename(folder, "one", folder, "two")

    assert looks == ["two"]


def test_a_missing_name_is_asked_for_once(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = NetworkFiles(tmp_path)
    looks = looks_of(files, monkeypatch)

    def stat(*_: object, **__: object) -> None:
        raise AssertionError("asked for it again")

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(os, "access", stat)

    with pytest.raises(FileNotFoundError):
        files.status_of(folder, "none")
    assert files.exists(folder, "none") is False
    assert looks == ["none", "none"]


def test_locks_of_a_folder_are_those_of_a_byte_that_reach_other_hosts(
    tmp_path: Path, folder: int
) -> None:
    """Another host is a descriptor that does not know of this one's flock."""
    here, there = NetworkFiles(tmp_path), NetworkFiles(tmp_path)
    other = os.open(tmp_path, os.O_RDONLY)

    assert here.lock_shared(folder)
    assert there.lock_shared(other)
    assert not here.lock(folder)
    assert here.lock_shared(folder)  # refused above, and shared as before
    there.unlock(other)
    assert here.lock(folder)
    assert not there.lock_shared(other)
    assert Files().lock(other), "flock is not used"
    again = os.open(tmp_path, os.O_RDONLY)
    assert not here.lock(again), "another descriptor of this process respects it"
    here.unlock(folder)
    assert there.lock(other)
    there.close(other)
    assert here.lock(folder)
    here.unlock(folder)
    here.close(again)


def test_without_the_format_file_a_folder_has_the_lock_of_its_host(
    tmp_path: Path, folder: int
) -> None:
    (tmp_path / "format").unlink()
    files = NetworkFiles(tmp_path)
    other = os.open(tmp_path, os.O_RDONLY)

    assert files.lock(folder)
    assert not Files().lock(other)

    files.unlock(folder)
    assert Files().lock(other)
    os.close(other)


def test_a_message_is_held_with_the_status_that_its_name_has(tmp_path: Path, folder: int) -> None:
    """That of the descriptor may have been cached before another host stamped the file."""

    class FreshFiles(NetworkFiles):
        def status_of(self, folder_fd: int, name: str) -> os.stat_result:
            os.utime(tmp_path / name, (7, 7))  # What another host did is seen from here on.
            return super().status_of(folder_fd, name)

    held = hold(FreshFiles(tmp_path), folder, "one")

    assert isinstance(held, Held)
    with held:
        assert held.status.st_mtime_ns == 7 * SECOND_NS


@pytest.mark.parametrize("is_plain", [False, True])
def test_other_changes_of_names_whose_replies_were_lost_are_recognised(
    tmp_path: Path, folder: int, is_plain: bool
) -> None:
    files = LossyFiles(tmp_path, is_plain)
    (tmp_path / "two").write_text("two")

    files.replace(folder, "two", folder, "one")
    assert (tmp_path / "one").read_text() == "two"
    with pytest.raises(FileNotFoundError):
        files.replace(folder, "two", folder, "one")
    files.make_folder(folder, "made", 0o700)
    files.make_folder(None, str(tmp_path / "also made"), 0o700)
    files.unlink(folder, "one")
    files.remove_folder(folder, "made")

    assert sorted(os.listdir(tmp_path)) == ["also made", "format"]
    with pytest.raises(FileExistsError):
        files.make_folder(folder, "also made", 0o700)
