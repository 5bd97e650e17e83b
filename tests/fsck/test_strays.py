"""fsck: files that are no messages, modes, the tree itself."""

from __future__ import annotations

import os
import shutil
import stat
import time
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.message.held import Held, hold
from mq.spool.root import open_root
from mq.spool.root_format import read_format
from mq.spool.spool import Spool
from tests.support.faults import WatchedFiles
from tests.support.fsck import Fsck, everything, sealed
from tests.support.messages import SECOND_NS, stamp
from tests.support.users import NOBODY, needs_root

ORDERS = QueueName("orders")


@pytest.fixture
def fsck(spool: Spool) -> Fsck:
    return Fsck(spool)


@pytest.mark.parametrize("name", ["new/.0123abcd", "queues/.probe-1-ab", "delay/.probe-1+:ab"])
def test_what_a_dead_process_left_goes_to_the_reaper(root: Path, fsck: Fsck, name: str) -> None:
    (root / name).touch()
    hidden = name.partition("/")[2]

    fsck.assert_mends("upload", name, "whose process died", f"moved to remove/{hidden}")

    assert (root / "remove" / hidden).exists()


def test_an_upload_under_way_is_none(
    spool: Spool, files: WatchedFiles, root: Path, fsck: Fsck
) -> None:
    upload = root / "new" / ".0123abcd"
    upload.touch()
    uploading = hold(files, spool.fd(Folder.NEW), upload.name)
    assert isinstance(uploading, Held)

    with uploading:
        assert fsck.mend() == []

    assert upload.exists()


FOREIGN = {
    "new/README": "corrupt/README",
    "delay/orders": "corrupt/orders",
    "delay/orders:a b": "corrupt/orders:a b",
    "queues/README": "corrupt/README",
    "queues/orders/a b": "corrupt/orders:a b",
    "queues/orders/.hidden": "corrupt/orders:.hidden",
    "queues/orders/orders:1": "corrupt/orders:orders:1",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_is_no_message_is_set_aside(root: Path, fsck: Fsck, name: str) -> None:
    (root / name).write_text("a person's")

    fsck.assert_mends("foreign", name, "not ", f"moved to {FOREIGN[name]}")

    assert (root / FOREIGN[name]).read_text() == "a person's"


@pytest.mark.parametrize(
    "name",
    ["new/orders:1", "delay/.link", "queues/link", "queues/orders/1", "remove/orders:.deleting"],
)
def test_a_link_is_set_aside_and_never_followed(
    root: Path, tmp_path: Path, fsck: Fsck, name: str
) -> None:
    (tmp_path / "target").mkdir(mode=0o500)
    (root / name).symlink_to(tmp_path / "target")

    fsck.assert_mends("foreign", name, "a link", "moved to corrupt/")

    assert [path.is_symlink() for path in (root / "corrupt").iterdir()] == [True]
    assert stat.S_IMODE((tmp_path / "target").stat().st_mode) == 0o500


@pytest.mark.parametrize(
    "name", ["new/orders:1", "delay/x", "queues/a b", "queues/orders/1", "remove/x"]
)
def test_a_folder_where_none_belongs_is_set_aside_whole(root: Path, fsck: Fsck, name: str) -> None:
    (root / name).mkdir()
    (root / name / "inside").write_text("a person's")

    fsck.assert_mends("foreign", name, "", "moved to corrupt/")

    (inside,) = (root / "corrupt").glob("*/inside")
    assert inside.read_text() == "a person's"


def test_a_fifo_does_not_stop_the_check(root: Path, fsck: Fsck) -> None:
    os.mkfifo(root / "new" / "orders:1")

    fsck.assert_mends("foreign", "new/orders:1", "a special file", "moved to corrupt/")


def test_a_second_foreign_file_of_that_name_replaces_none(root: Path, fsck: Fsck) -> None:
    for body in ("first", "second"):
        (root / "new" / "README").write_text(body)
        fsck.mend()

    assert everything(root / "corrupt") == {"README": b"first", "README~2": b"second"}


@pytest.mark.parametrize("name", ["queues/orders/1", "delay/orders:1"])
@pytest.mark.parametrize("mode", [0o000, 0o400, 0o200, 0o077])
def test_a_mode_that_shuts_the_owner_out_is_mended(
    root: Path, fsck: Fsck, name: str, mode: int
) -> None:
    sealed(root / name).chmod(mode)

    fsck.assert_mends("mode", name, f"mode {mode:04o}", f"mode {mode | 0o600:04o}")

    assert stat.S_IMODE((root / name).stat().st_mode) == mode | 0o600


@pytest.mark.parametrize("name", ["queues/orders", "queues", "new", "delay", "remove", "corrupt"])
def test_the_mode_of_a_folder_is_mended(root: Path, fsck: Fsck, name: str) -> None:
    (root / "corrupt").mkdir()
    (root / name).chmod(0o500)

    fsck.assert_mends("mode", name, "mode 0500", "mode 0700")


def test_the_mode_of_the_root_is_mended(root: Path, fsck: Fsck) -> None:
    root.chmod(0o500)

    fsck.assert_mends("mode", ".", "mode 0500", "mode 0700")


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o200])
def test_a_mode_that_keeps_a_server_from_the_format_is_mended(
    root: Path, fsck: Fsck, mode: int
) -> None:
    (root / "format").chmod(mode)

    fsck.assert_mends("mode", "format", f"mode {mode:04o}", f"mode {mode | 0o600:04o}")


def test_a_new_mode_keeps_the_due_time(spool: Spool, root: Path, fsck: Fsck) -> None:
    future, past = sealed(root / "delay" / "orders:1"), sealed(root / "delay" / "orders:2")
    for path, due_in_seconds in ((future, 60.0), (past, 0.02)):
        path.chmod(0)
        stamp(path, due_in_seconds)
    due_ns = future.stat().st_mtime_ns
    time.sleep(0.05)

    fsck.mend()

    assert future.stat().st_mtime_ns == due_ns
    # Past its time it is due again within moments, whatever the mover's --delay.
    status = past.stat()
    assert status.st_ctime_ns < status.st_mtime_ns < time.time_ns() + 2 * SECOND_NS


@needs_root
@pytest.mark.parametrize("name", ["queues/orders/1", "format"])
def test_a_file_of_another_user_is_named(root: Path, orders: Path, fsck: Fsck, name: str) -> None:
    sealed(orders / "1")
    os.chown(root / name, NOBODY, NOBODY)

    (found,) = fsck.mend()

    assert (found.kind, found.repair) == ("mode", None)
    assert f"belongs to user {NOBODY}, the root to user 0; not repaired: chown" in found.detail


def test_a_missing_format_file_is_written(root: Path, fsck: Fsck) -> None:
    (root / "format").unlink()

    fsck.assert_mends("missing", "format", "not there", "written as 'mq 2'")

    assert (root / "format").read_text() == "mq 2\n"


@pytest.mark.parametrize("name", ["new", "queues", "delay", "remove"])
def test_a_missing_folder_is_made(root: Path, fsck: Fsck, name: str) -> None:
    shutil.rmtree(root / name)

    fsck.assert_mends("missing", name, "not there", "made")

    assert stat.S_IMODE((root / name).stat().st_mode) == 0o700


IN_PLACE_OF = ["a link", "a dangling link", "a file", "a FIFO"]


def put_in_place(path: Path, elsewhere: Path, kind: str) -> None:
    path.rename(elsewhere) if path.exists() else elsewhere.mkdir()
    if kind == "a link":
        path.symlink_to(elsewhere)
    elif kind == "a dangling link":
        path.symlink_to("nowhere")
    elif kind == "a file":
        path.touch()
    else:
        os.mkfifo(path)


@pytest.mark.parametrize("kind", IN_PLACE_OF)
@pytest.mark.parametrize("name", ["queues", "delay", "corrupt", "spark"])
def test_what_has_the_place_of_a_folder_of_the_root_is_named_and_left_to_a_person(
    root: Path, tmp_path: Path, fsck: Fsck, name: str, kind: str
) -> None:
    put_in_place(root / name, tmp_path / "elsewhere", kind)
    before = (root / name).lstat()

    found = [*fsck.report(), *fsck.mend()]

    assert [(each.kind, each.path, each.repair) for each in found] == [("foreign", name, None)] * 2
    assert "not a folder; not repaired: move it away" in found[1].detail
    # Following a link may change its atime.
    after = (root / name).lstat()
    assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


@pytest.mark.parametrize("found", [b"", bytes(5), bytes(4096)])
def test_a_blank_format_file_is_written_again_in_its_place(
    root: Path, fsck: Fsck, found: bytes
) -> None:
    """Other processes lock its bytes. `mq 2` also keeps out versions that would misread seals."""
    sealed(root / "queues" / "orders" / "1")
    (root / "format").write_bytes(found)
    inode = (root / "format").stat().st_ino

    fsck.assert_mends("format", "format", "the file is blank", "written as 'mq 2'")

    assert read_format(root) == "mq 2"
    assert (root / "format").stat().st_ino == inode
    open_root(root, 0o700, Files())[0].close()


@pytest.mark.parametrize("kind", ["a link", "a dangling link", "a folder", "a FIFO"])
def test_what_has_the_place_of_the_format_is_named_and_left_to_a_person(
    root: Path, tmp_path: Path, fsck: Fsck, kind: str
) -> None:
    if kind == "a folder":
        (root / "format").unlink()
        (root / "format").mkdir()
    else:
        put_in_place(root / "format", tmp_path / "elsewhere", kind)

    found = [*fsck.report(), *fsck.mend()]

    assert [(each.kind, each.path) for each in found] == [("foreign", "format")] * 2
    assert "not a file; not repaired: move it away" in found[1].detail


@pytest.mark.parametrize("missing", [["new"], ["new", "queues", "delay", "remove"]])
def test_a_missing_folder_is_not_made_for_others_because_the_root_is_open(
    root: Path, fsck: Fsck, missing: list[str]
) -> None:
    root.chmod(0o755)
    for name in missing:
        shutil.rmtree(root / name)

    assert [each.path for each in fsck.mend()] == missing

    assert {stat.S_IMODE((root / name).stat().st_mode) for name in missing} == {0o700}


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127 + "x"])
def test_a_foreign_name_as_long_as_a_name_can_be_is_moved_too(
    root: Path, fsck: Fsck, name: str
) -> None:
    (root / "queues" / "orders" / name).touch()
    (root / "new" / name).touch()
    (root / "delay" / name).touch()

    assert {finding.repair is not None for finding in fsck.mend()} == {True}
    assert fsck.mend() == []
    assert len(list((root / "corrupt").iterdir())) == 3
