"""fsck: damaged and stuck messages, unfinished deletions; and what does not count as a finding."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mq.disk.files import Files
from mq.fsck.check import Check, mend, report
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.message.held import Held, hold
from mq.spool.queue.queues import begin_deletion, finish_deletion
from mq.spool.spool import Spool
from tests.support.faults import WatchedFiles
from tests.support.fsck import Fsck, everything, sealed
from tests.support.messages import names_in, seal_of, write_message

ORDERS = QueueName("orders")


@pytest.fixture
def fsck(spool: Spool) -> Fsck:
    return Fsck(spool)


def test_a_clean_root_has_no_findings(spool: Spool, root: Path, orders: Path, fsck: Fsck) -> None:
    sealed(orders / "1")
    write_message(orders / "2", b"by a person's mv, without a seal")
    write_message(root / "delay" / "orders:3", seal=seal_of(b"body", lease=1), due_in_seconds=60)
    write_message(root / "delay" / "orders:4", seal=seal_of(b"body"), due_in_seconds=-60)
    sealed(root / "remove" / "orders:5")
    sealed(root / "remove" / "orders:5~2", b"another one of that id")
    (root / "remove" / "orders:.6ba7b810-9dad-11d1-80b4-00c04fd430c8").mkdir()
    (root / "lost+found").mkdir()
    (root / "queues" / "orders.dead").mkdir()
    sealed(root / "queues" / "orders.dead" / "1")
    before = everything(root)

    assert fsck.report() == fsck.mend() == []

    assert everything(root) == before


def test_a_clean_root_is_read_without_a_lock(root: Path, orders: Path, fsck: Fsck) -> None:
    """A receiver would pass over a message whose lock it finds taken: out of order."""
    sealed(orders / "1")
    sealed(root / "delay" / "orders:2")
    files = WatchedFiles()
    fsck.files = lambda: files

    assert fsck.mend() == []
    assert files.calls["open_message"] == 2
    assert files.calls["lock"] == 0


def test_a_look_changes_nothing(spool: Spool, root: Path, orders: Path, fsck: Fsck) -> None:
    sealed(orders / "1").write_bytes(b"x")
    sealed(root / "delay" / "gone:1")
    write_message(root / "new" / "orders:2")
    (root / "new" / "README").touch()
    (root / "format").unlink()
    before = [(path, path.lstat().st_ctime_ns) for path in sorted(root.rglob("*"))]

    assert len(fsck.report()) == 5

    assert [(path, path.lstat().st_ctime_ns) for path in sorted(root.rglob("*"))] == before


@pytest.mark.parametrize("body", [b"", b"Body", b"longer than the body"])
@pytest.mark.parametrize("name", ["queues/orders/1", "delay/orders:1"])
def test_a_damaged_message_goes_to_corrupt(root: Path, fsck: Fsck, name: str, body: bytes) -> None:
    sealed(root / name).write_bytes(body)
    detail = "not what its seal says" if len(body) == 4 else f"it has {len(body)} bytes"

    fsck.assert_mends("damaged", name, detail, "moved to corrupt/orders:1")

    assert (root / "corrupt" / "orders:1").read_bytes() == body


def test_a_damaged_leftover_goes_to_corrupt(root: Path, fsck: Fsck) -> None:
    sealed(root / "new" / "orders:1").write_bytes(b"x")

    fsck.assert_mends("damaged", "new/orders:1", "1 bytes", "moved to corrupt/orders:1")


def test_a_damaged_message_that_somebody_holds_stays_a_finding(
    spool: Spool, orders: Path, fsck: Fsck
) -> None:
    sealed(orders / "1").write_bytes(b"x")
    held = hold(spool.files, spool.fd(Folder.QUEUES), "orders/1")
    assert isinstance(held, Held)

    with held:
        (found,) = fsck.mend()

    assert found.repair is None
    assert "another process is working on it" in found.detail
    assert names_in(orders) == ["1"]


def test_a_leftover_of_a_dead_publisher_is_delivered(orders: Path, root: Path, fsck: Fsck) -> None:
    sealed(root / "new" / "orders:1")

    fsck.assert_mends("leftover", "new/orders:1", "not delivered", "delivered to queue orders")

    assert names_in(orders) == ["1"]


def test_delivering_a_leftover_unlinks_no_upload(root: Path, orders: Path, fsck: Fsck) -> None:
    """A whole sweep would discard one that was not there when the check looked."""
    sealed(root / "new" / "orders:1")
    upload = root / "new" / ".0123abcd"
    fsck.meanwhile = upload.touch

    fsck.mend()

    assert names_in(orders) == ["1"]
    assert upload.exists()


def test_a_message_whose_publisher_lives_is_none(spool: Spool, root: Path, fsck: Fsck) -> None:
    sealed(root / "new" / "orders:1")
    sealed(root / "new" / "gone:1")
    publishers = [hold(spool.files, spool.fd(Folder.NEW), name) for name in ("orders:1", "gone:1")]

    assert fsck.mend() == []

    for publisher in publishers:
        assert isinstance(publisher, Held)
        publisher.close()


@pytest.mark.parametrize("folder", ["new", "delay"])
def test_a_message_without_a_queue_is_set_aside(root: Path, fsck: Fsck, folder: str) -> None:
    sealed(root / folder / "gone:1", b"the orphan")

    fsck.assert_mends("orphan", f"{folder}/gone:1", "no queue gone", "moved to corrupt/gone:1")

    assert everything(root)["corrupt/gone:1"] == b"the orphan"


def test_an_orphan_whose_queue_is_made_meanwhile_is_none(root: Path, fsck: Fsck) -> None:
    sealed(root / "delay" / "late:1")
    fsck.meanwhile = (root / "queues" / "late").mkdir

    assert fsck.mend() == []


def test_an_unfinished_deletion_is_finished_and_its_messages_are_no_orphans(
    spool: Spool, root: Path, fsck: Fsck
) -> None:
    sealed(root / "new" / "orders:1")
    sealed(root / "delay" / "orders:2")
    begin_deletion(spool, ORDERS)

    fsck.assert_mends("deletion", "remove/orders:.deleting", "stopped half-way", "finished")

    assert names_in(root / "new") == names_in(root / "delay") == []
    [deleted] = (root / "remove").glob("orders:.*")
    assert names_in(deleted) == ["orders:1", "orders:2"]


def test_a_deletion_under_way_is_none(spool: Spool, root: Path, fsck: Fsck) -> None:
    sealed(root / "delay" / "orders:1")
    begin_deletion(spool, ORDERS)

    with spool.files.locked_folder(spool.fd(Folder.REMOVE), "orders:.deleting"):
        assert fsck.report() == []


def test_a_deletion_that_another_one_follows_is_none(
    spool: Spool, orders: Path, fsck: Fsck
) -> None:
    begin_deletion(spool, ORDERS)

    def delete_again() -> None:
        finish_deletion(spool, ORDERS)
        orders.mkdir()
        begin_deletion(spool, ORDERS)

    fsck.meanwhile = delete_again

    assert fsck.report() == []


def _path_of(at: int | str, name: str) -> str:
    """What a call of `Files` is about: a name in an open folder, an open file, or a path."""
    opened = os.readlink(f"/proc/self/fd/{at}") if isinstance(at, int) else os.path.realpath(at)
    return os.path.join(opened, name) if os.path.isdir(opened) else opened


@pytest.mark.parametrize(
    "calls", [("status_of", "open_message"), ("open_message",), ("attribute",)]
)
@pytest.mark.parametrize("name", ["queues/orders/1", "new/orders:1", "delay/orders:1"])
def test_a_file_that_cannot_be_read_is_one_finding_and_keeps_nothing_else(
    root: Path, orders: Path, fsck: Fsck, name: str, calls: tuple[str, ...]
) -> None:
    sealed(root / name)
    (root / "delay/README").touch()

    def failing(call: str) -> Callable[..., Any]:
        def fail(files: Files, at: int | str, called: str) -> Any:
            if _path_of(at, called) == str(root / name):
                raise OSError(errno.EUCLEAN, os.strerror(errno.EUCLEAN))
            return getattr(Files, call)(files, at, called)

        return fail

    fsck.files = type("BrokenFiles", (Files,), {each: failing(each) for each in calls})

    for found in (fsck.report(), fsck.mend()):
        broken, foreign = sorted(found, key=lambda each: each.kind)
        assert (broken.kind, broken.path, broken.repair) == ("damaged", name, None)
        assert "Structure needs cleaning" in broken.detail
        assert foreign.path == "delay/README"
    assert (root / name).exists()
    assert not (root / "delay/README").exists()


@pytest.mark.parametrize("call", ["status_of", "open_folder"])
def test_a_queue_whose_folder_cannot_be_read_is_one_finding_and_keeps_no_other(
    root: Path, orders: Path, fsck: Fsck, call: str
) -> None:
    sealed(orders / "1")
    sealed(root / "delay/orders:2")
    for queue in ("bills", "returns"):
        (root / "queues" / queue).mkdir()
        sealed(root / "queues" / queue / "1").write_bytes(b"torn")
    files = WatchedFiles()

    def fail(_: int, name: str) -> None:
        if name == "orders":
            raise OSError(errno.EUCLEAN, os.strerror(errno.EUCLEAN), name)

    files.before[call] = fail
    fsck.files = lambda: files

    for repair in (None, "moved to corrupt"):
        found = {each.path: each for each in (fsck.mend() if repair else fsck.report())}
        broken = found.pop("queues/orders")
        assert (broken.kind, broken.repair) == ("damaged", None)
        assert "the folder cannot be read: Structure needs cleaning" in broken.detail
        assert found.keys() == {"queues/bills/1", "queues/returns/1"}
        assert all((repair or "") in (each.repair or "") for each in found.values())
    assert names_in(orders) == ["1"]


def test_what_cannot_be_mended_stays_a_finding_and_keeps_nothing_else(
    root: Path, spool: Spool
) -> None:
    for name in ("README", "NEWS"):
        (root / "new" / name).touch()
    files = WatchedFiles()
    files.fail("rename")

    failed, mended = Check(root, files, mend, lambda *_: None).run()

    assert failed.repair is None
    assert "not repaired: Input/output error" in failed.detail
    assert mended.repair is not None


def test_repairs_are_synced_at_the_end(root: Path, spool: Spool) -> None:
    (root / "new" / "README").touch()
    files = WatchedFiles()

    assert len(list(Check(root, files, mend, lambda *_: None).run())) == 1
    assert files.calls["sync_file_system"] == 1
    assert list(Check(root, files, mend, lambda *_: None).run()) == []
    assert files.calls["sync_file_system"] == 1


def test_progress_ends_with_every_name_looked_at(root: Path, orders: Path, spool: Spool) -> None:
    for number in range(20):
        sealed(orders / str(number))
        sealed(root / "delay" / f"orders:d{number}")
    shown: list[tuple[int, int]] = []

    list(Check(root, WatchedFiles(), report, lambda *seen: shown.append(seen)).run())

    total = 20 + 20 + 1 + len(os.listdir(root / "remove"))
    assert shown == [(done, total) for done in range(1, total + 1)]
