"""The sweep: what a crash left in `new` is delivered or set aside; the rest is let alone."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.message.held import Held, Lost, hold
from mq.spool.queue.queues import begin_deletion
from mq.spool.root import open_root
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper, Swept
from tests.support.faults import OldFiles, WatchedFiles
from tests.support.messages import names_in, seal_of, write_message


class Reports(dict[str, str]):
    """Why files were left; a second report of one file is a failure."""

    def take(self, name: str, why: str) -> None:
        assert name not in self
        self[name] = why


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def sweeper(spool: Spool, reports: Reports) -> Sweeper:
    return Sweeper(spool, reports.take)


def _leftover(spool: Spool, name: str = "orders:1", body: bytes = b"body") -> Path:
    return write_message(spool.root / "new" / name, body, seal=seal_of(b"body"))


def test_whole_leftover_is_delivered(spool: Spool, sweeper: Sweeper) -> None:
    _leftover(spool)

    assert sweeper.sweep() == Swept(delivered=1)

    assert (spool.root / "queues" / "orders" / "1").read_bytes() == b"body"
    assert os.listdir(spool.root / "new") == []
    assert sweeper.sweep() == Swept()


@pytest.mark.parametrize("torn", [b"", b"bod", b"bodY"])
def test_damaged_leftover_is_set_aside(spool: Spool, sweeper: Sweeper, torn: bytes) -> None:
    _leftover(spool, body=torn)

    assert sweeper.sweep() == Swept(corrupt=1)

    assert (spool.root / "corrupt" / "orders:1").read_bytes() == torn
    assert names_in(spool.root / "queues" / "orders") == []


def test_leftover_without_a_seal_is_delivered(spool: Spool, sweeper: Sweeper) -> None:
    write_message(spool.root / "new" / "orders:1")

    assert sweeper.sweep() == Swept(delivered=1)


def test_message_whose_publisher_lives_is_let_alone(
    spool: Spool, sweeper: Sweeper, reports: Reports
) -> None:
    _leftover(spool)
    publisher = hold(spool.files, spool.fd(Folder.NEW), "orders:1")
    assert isinstance(publisher, Held)

    with publisher:
        assert sweeper.sweep() == Swept()

    assert sweeper.sweep() == Swept(delivered=1)
    assert reports == {}


def test_what_cannot_be_placed_stays_and_is_reported_once(
    spool: Spool, sweeper: Sweeper, reports: Reports
) -> None:
    new, taken = spool.root / "new", spool.root / "queues" / "orders" / "1"
    _leftover(spool, "orders:1")
    write_message(taken, b"other")
    _leftover(spool, "gone:1")
    write_message(new / "README")
    (new / "orders:link").symlink_to("nowhere")

    assert [sweeper.sweep(), sweeper.sweep()] == [Swept(), Swept()]

    assert reports == {
        "new/orders:1": "queue orders has another message of that id",
        "new/gone:1": "there is no queue gone",
        "new/README": "not a name of the form QUEUE:ID",
        "new/orders:link": Lost.FOREIGN.value,
    }
    assert names_in(new) == ["README", "gone:1", "orders:1", "orders:link"]
    assert taken.read_bytes() == b"other"


def test_the_body_of_what_stays_is_read_again_only_when_it_has_changed(root: Path) -> None:
    class ReadFiles(Files):
        bodies_read = 0

        def read(self, fd: int, length: int, offset: int = 0) -> bytes:
            self.bodies_read += offset == 0
            return super().read(fd, length, offset)

    files = ReadFiles()
    spool, _ = open_root(root, 0o700, files)
    (root / "new/.gone:batch").mkdir()
    left = [_leftover(spool, "gone:1"), _leftover(spool, ".gone:batch/gone:2")]
    sweeper = Sweeper(spool, lambda *_: None)
    sweeper.sweep()
    assert files.bodies_read == 2

    sweeper.sweep()
    sweeper.sweep()
    assert files.bodies_read == 2

    for path, torn in zip(left, (b"torn", b"bo"), strict=True):
        before_ns = path.stat().st_ctime_ns
        # The clock of the kernel goes in ticks.
        while path.stat().st_ctime_ns == before_ns:
            path.write_bytes(torn)
    assert sweeper.sweep().corrupt == 2
    spool.close()


def test_leftover_of_a_missing_queue_is_delivered_once_the_queue_is_made(
    spool: Spool, sweeper: Sweeper
) -> None:
    _leftover(spool, "late:1")
    sweeper.sweep()

    (spool.root / "queues" / "late").mkdir()

    assert sweeper.sweep() == Swept(delivered=1)


def test_file_that_cannot_be_handled_keeps_no_other_from_delivery(
    spool: Spool, sweeper: Sweeper, reports: Reports
) -> None:
    write_message(spool.root / "queues" / "plain")
    for name in ("plain:1", "orders:1", "plain:2", "orders:2"):
        _leftover(spool, name)

    assert sweeper.sweep() == Swept(delivered=2)

    assert names_in(spool.root / "queues" / "orders") == ["1", "2"]
    assert names_in(spool.root / "new") == ["plain:1", "plain:2"]
    assert sorted(reports) == ["new/plain:1", "new/plain:2"]


def test_file_that_may_not_be_opened_keeps_no_other_from_delivery(
    spool: Spool, files: WatchedFiles, sweeper: Sweeper, reports: Reports
) -> None:
    for name in (".upload", "orders:1", "orders:2"):
        _leftover(spool, name)
    files.fail("open_message", code=errno.EACCES, times=2)

    assert sweeper.sweep().delivered <= 1

    assert list(reports.values()) == ["Permission denied"] * 2
    sweeper.sweep()
    assert names_in(spool.root / "queues" / "orders") == ["1", "2"]


def test_upload_of_a_dead_process_is_discarded(
    open_spool: Callable[[WatchedFiles], Spool], spool: Spool, sweeper: Sweeper
) -> None:
    upload = write_message(spool.root / "new" / ".0123456789abcdef")

    assert sweeper.sweep() == Swept()

    assert not upload.exists()


def test_upload_of_a_living_process_is_let_alone(spool: Spool, sweeper: Sweeper) -> None:
    upload = write_message(spool.root / "new" / ".0123456789abcdef")
    uploading = hold(spool.files, spool.fd(Folder.NEW), upload.name)
    assert isinstance(uploading, Held)

    with uploading:
        sweeper.sweep()

        assert upload.exists()


def test_upload_that_a_sweep_saw_before_it_was_locked_is_begun_anew(
    open_spool: Callable[[WatchedFiles], Spool],
) -> None:
    files, sweeping = OldFiles(), WatchedFiles()
    spool = open_spool(files)
    new = spool.fd(Folder.NEW)
    seen: list[Held | Lost] = []

    def see(*_: object) -> None:
        del files.before["lock"]
        seen.extend(hold(sweeping, new, name) for name in spool.names(Folder.NEW))

    files.before["lock"] = see
    fd = files.open_unnamed(new, 0o600)

    assert [type(each) for each in seen] == [Held]
    files.link(fd, new, "orders:1")
    files.close(fd)
    assert names_in(spool.root / "new") == ["orders:1"]


def test_upload_that_a_sweep_discarded_is_closed_all_the_same(
    open_spool: Callable[[WatchedFiles], Spool],
) -> None:
    files = OldFiles()
    spool = open_spool(files)
    fd = files.open_unnamed(spool.fd(Folder.NEW), 0o600)
    (upload,) = (spool.root / "new").iterdir()
    upload.unlink()

    files.close(fd)

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_unfinished_deletion_is_finished_before_its_messages_are_delivered(
    spool: Spool, sweeper: Sweeper
) -> None:
    begin_deletion(spool, QueueName("orders"))
    _leftover(spool)

    assert sweeper.sweep() == Swept(deletions=1)

    assert os.listdir(spool.root / "new") == names_in(spool.root / "queues") == []


def test_deletion_that_a_stopped_process_holds_keeps_nothing_from_delivery(
    spool: Spool, sweeper: Sweeper, reports: Reports
) -> None:
    (spool.root / "remove" / "returns:.deleting").mkdir()
    write_message(spool.root / "remove" / "file:.deleting")
    _leftover(spool)

    with spool.files.locked_folder(spool.fd(Folder.REMOVE), "returns:.deleting"):
        assert sweeper.sweep() == Swept(delivered=1)

    assert reports == {
        "remove/returns:.deleting": "another process holds its lock",
        "remove/file:.deleting": "Not a directory",
    }
    assert sweeper.sweep() == Swept(deletions=1)


def test_folder_in_remove_that_is_no_queues_is_no_unfinished_deletion(
    spool: Spool, sweeper: Sweeper
) -> None:
    (spool.root / "remove" / ".bad name:.deleting").mkdir()

    assert sweeper.sweep() == Swept()


def test_two_sweeps_at_once_deliver_each_message_once(
    open_spool: Callable[[WatchedFiles], Spool], spool: Spool, reports: Reports
) -> None:
    other = WatchedFiles()
    slow = Sweeper(open_spool(other), reports.take)
    for number in range(20):
        _leftover(spool, f"orders:{number}")
    delivered = []

    def overtake(*_: object) -> None:
        del other.before["open_message"]
        delivered.append(Sweeper(spool, reports.take).sweep().delivered)

    other.before["open_message"] = overtake
    delivered.append(slow.sweep().delivered)

    assert delivered == [20, 0]
    assert len(names_in(spool.root / "queues" / "orders")) == 20
    assert reports == {}
