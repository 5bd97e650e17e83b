"""VSQS: the folder of a queue, arguments, and stable media."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.faults import SuspiciousFiles, WatchedFiles
from tests.support.users import needs_root
from tests.support.vsqs import Clock, OpenQueue, names_in
from vsqs.limits import NEW_SECONDS
from vsqs.queue import Queue

# The folder


def test_the_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    files = WatchedFiles()

    with Queue(str(tmp_path / "a" / "b" / "c"), files=files) as queue:
        assert queue.path == str(tmp_path / "a" / "b" / "c")

    assert (tmp_path / "a" / "b" / "c").is_dir()
    assert files.calls["make_folder"] == files.calls["sync"] == 3


def test_a_link_to_the_folder_is_followed(queue: Queue, folder: Path) -> None:
    link = folder.with_name("link")
    link.symlink_to(folder)
    queue.publish(b"body")

    with Queue(link) as other:
        assert other.receive()[1] == b"body"


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(NotADirectoryError):
        Queue(tmp_path / "file")


def test_a_relative_path_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Queue("here") as queue:
        monkeypatch.chdir("/")
        queue.publish(b"")

    assert len(names_in(tmp_path / "here")) == 1


def test_an_empty_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what a program makes of a setting that is missing, not the current folder."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(FileNotFoundError, match="is empty"):
        Queue("")


@pytest.mark.parametrize("kind", ["nfs4", "smb3", "gfs2", "gpfs", "fuse.sshfs"])
def test_where_other_machines_write_the_folder_is_listed_and_not_watched(
    open_queue: OpenQueue, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def watch() -> NoReturn:
        raise AssertionError("no event tells what another machine changes")

    monkeypatch.setattr("vsqs.folder.Watch", watch)
    monkeypatch.setattr("vsqs.folder.file_system_kind", lambda _: kind)
    there, here = open_queue(), open_queue()

    there.publish(b"from afar")

    assert here.receive()[1] == b"from afar"


@needs_root
def test_another_file_system_in_the_place_of_the_folder_is_an_error_once(folder: Path) -> None:
    """Its folder may have the inode number that the one below has."""
    folder.mkdir()
    with ExitStack() as mounts:
        mounts.callback(_unmount, _mount(folder))
        queue = mounts.enter_context(Queue(folder))
        mounts.callback(_unmount, _mount(folder))
        with Queue(folder) as other:
            message_id = other.publish(b"body")

        with pytest.raises(FileNotFoundError, match="replaced"):
            queue.receive(timeout=30)
        assert queue.receive(timeout=0)[0] == message_id
        queue.close()


def _mount(path: Path) -> Path:
    subprocess.run(["mount", "-t", "tmpfs", "none", path], check=True)
    return path


def _unmount(path: Path) -> None:
    subprocess.run(["umount", path], check=True)


@pytest.mark.parametrize("how", ["moved", "deleted"])
def test_a_folder_that_went_away_is_an_error_until_it_is_there_again(
    queue: Queue, folder: Path, how: str
) -> None:
    queue.publish(b"old")
    if how == "moved":
        folder.rename(folder.with_name("elsewhere"))
    else:
        shutil.rmtree(folder)

    with pytest.raises(FileNotFoundError):
        queue.publish(b"new")
    folder.mkdir()
    message_id = queue.publish(b"new")

    assert names_in(folder) == [message_id]


@pytest.mark.usefixtures("no_events")
def test_without_events_a_waiting_receive_goes_on_in_the_folder_that_replaced_it(
    folder: Path,
) -> None:
    with Queue(folder) as queue:
        folder.rename(folder.with_name("elsewhere"))
        with Queue(folder) as other:
            message_id = other.publish(b"body")

        with pytest.raises(FileNotFoundError, match="replaced"):
            queue.receive(timeout=5)
        assert queue.receive(timeout=0) == (message_id, b"body")


@pytest.mark.parametrize("how", ["parent", "link"])
def test_no_message_goes_where_the_path_does_not_lead_any_more(tmp_path: Path, how: str) -> None:
    """No event tells of it: the folder itself is where it was, or moved along with one above."""
    above, old = tmp_path / "above", tmp_path / "old"
    above.mkdir()
    if how == "link":
        old.mkdir()
        (above / "orders").symlink_to(old)
    with Queue(above / "orders") as queue:
        queue.publish(b"old")
        if how == "link":
            (above / "orders").unlink()
        else:
            above.rename(old)
        (above / "orders").mkdir(parents=True)

        with pytest.raises(FileNotFoundError, match="replaced"):
            queue.publish(b"lost")
        message_id = queue.publish(b"new")

    assert names_in(above / "orders") == [message_id]
    assert len(list(old.rglob("*[0-9]"))) == 1


@needs_root
def test_no_message_goes_below_what_is_mounted_on_the_folder(folder: Path, queue: Queue) -> None:
    with ExitStack() as mounts:
        mounts.callback(_unmount, _mount(folder))

        with pytest.raises(FileNotFoundError, match="replaced"):
            queue.publish(b"lost")
        message_id = queue.publish(b"new")

        assert names_in(folder) == [message_id]
        queue.close()
    assert names_in(folder) == []


def test_wrong_arguments_are_refused(folder: Path, queue: Queue) -> None:
    with pytest.raises(ValueError, match="unit"):
        Queue(folder, unit="s")
    for bad in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="visibility_timeout"):
            queue.receive(bad)
    with pytest.raises(TypeError):
        queue.publish("text")  # type: ignore[arg-type]
    assert names_in(folder) == []


@pytest.mark.parametrize("data", [b"body", bytearray(b"body"), memoryview(b"body"), b""])
def test_a_body_is_anything_of_bytes(queue: Queue, data: bytes) -> None:
    queue.publish(data)

    assert queue.receive()[1] == bytes(data)


def test_a_large_body_comes_back_whole(queue: Queue) -> None:
    body = os.urandom(3_000_000)
    queue.publish(body)

    assert queue.receive()[1] == body


# Stable media


def test_every_operation_is_synced_before_it_returns(folder: Path) -> None:
    files = WatchedFiles()
    with Queue(folder, files=files) as queue:
        made = files.calls["sync"]
        message_id = queue.publish(b"")
        assert files.calls["sync"] == made + 2
        queue.receive()
        assert files.calls["sync"] == made + 3
        queue.delete(message_id)
        assert files.calls["sync"] == made + 4


def test_sync_false_syncs_nothing(folder: Path) -> None:
    files = WatchedFiles()
    with Queue(folder, sync=False, files=files) as queue:
        queue.delete(queue.publish(b""))
        queue.publish(b"")
        assert queue.receive()[1] == b""

    assert files.syncs() == 0


def test_no_descriptor_is_synced_after_its_sync_has_failed(folder: Path) -> None:
    files = SuspiciousFiles()
    with Queue(folder, files=files) as queue:
        ids = [queue.publish(b"%d" % n) for n in range(3)]
        for operation in (
            lambda: queue.publish(b""), queue.receive, lambda: queue.delete(ids[1])
        ):  # fmt: skip
            files.fail("sync")
            with pytest.raises(OSError, match="Input/output error"):
                operation()
        assert queue.receive() == (ids[2], b"2")

    assert files.failed
    assert files.retried == []


def test_names_follow_the_clock_under_load(folder: Path) -> None:
    """There are a thousand names a second; more publishers wait, so that names stay times."""
    with Queue(folder, sync=False) as queue:
        for _ in range(300):
            newest = queue.publish(b"")

        assert int(newest) <= time.time() * 1000


def test_a_clock_set_back_by_hours_makes_nobody_wait(folder: Path) -> None:
    clock = Clock()
    with Queue(folder, clock_ns=clock) as queue:
        queue.publish(b"")
        clock.go(-3600)
        paused: list[float] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("vsqs.folder.time.sleep", paused.append)
            queue.publish(b"")

    assert paused == []


def test_a_file_server_whose_clock_is_behind_has_no_message_swept_that_is_being_written(
    open_queue: OpenQueue, folder: Path, no_events: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = WatchedFiles()
    queue, other = open_queue(files=files), open_queue()
    true_time = time.time
    monkeypatch.setattr(time, "time", lambda: true_time() + 2 * NEW_SECONDS)
    written: list[object] = []

    def look(*_: object) -> None:
        other.receive(timeout=0)
        written.append(names_in(folder))
        assert len(written) < 9, "it is swept again and again"

    files.before["write"] = look
    message_id = queue.publish(b"body")

    assert written == [[f"{message_id}.new"]]
    assert queue.receive() == (message_id, b"body")
