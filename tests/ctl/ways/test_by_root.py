"""The way by root, below the commands: durable before it returns, the same locks as servers."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from mq.ctl.ways.access import ShownMessage
from mq.ctl.ways.by_root import RootAccess
from mq.errors import LeaseMismatch, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.file_system import file_system_kind
from mq.spool.message.held import Held, hold
from mq.spool.queue.queues import begin_deletion
from mq.spool.spool import Spool
from tests.support.faults import MortalFiles, WatchedFiles
from tests.support.messages import names_in, read_seal
from tests.support.visitors import LARGE, ORDERS, SMALL, send


def take(access: RootAccess) -> tuple[ShownMessage, bytes]:
    """A message that must be there, and its body."""
    message = access.receive(ORDERS, None)
    assert message is not None
    body = message.body.read()
    message.body.close()
    return message, body


def disk(tmp_path: Path) -> Path:
    if file_system_kind(tmp_path) in ("tmpfs", "ramfs"):
        pytest.skip(f"{tmp_path} is in memory, where nothing is ever synced")
    return tmp_path / "root"


@pytest.mark.parametrize("body", [b"", SMALL, LARGE])
def test_what_is_sent_is_received_once(access: RootAccess, body: bytes) -> None:
    message_id = send(access, body)

    message, received = take(access)

    assert (message.message_id, received, message.length) == (message_id, body, len(body))
    assert access.receive(ORDERS, None) is None


def test_messages_come_in_the_order_in_which_they_were_sent(access: RootAccess) -> None:
    sent = [send(access) for _ in range(20)]

    assert [take(access)[0].message_id for _ in sent] == sent


def note(steps: list[str], step: str, *_: object) -> None:
    steps.append(step)


@pytest.mark.parametrize("operation", ["create", "publish", "publish large", "receive", "remove"])
def test_a_change_is_synced_before_it_returns(tmp_path: Path, operation: str) -> None:
    files = WatchedFiles()
    access = RootAccess(disk(tmp_path), files)
    access.create_queue(ORDERS)
    message_id = send(access)
    files.calls.clear()
    steps: list[str] = []
    for name in ("sync", "sync_file_system", "link", "rename", "make_folder"):
        files.before[name] = partial(note, steps, name)

    changes: dict[str, Callable[[], object]] = {
        "create": lambda: access.create_queue(QueueName("other")),
        "publish": lambda: send(access),
        "publish large": lambda: send(access, LARGE),
        "receive": lambda: take(access),
        "remove": lambda: access.remove(ORDERS, message_id, None),
    }
    changes[operation]()

    access.close()
    syncs = [number for number, step in enumerate(steps) if step.startswith("sync")]
    named = [number for number, step in enumerate(steps) if step in ("link", "make_folder")]
    assert syncs
    if named:
        assert max(syncs) > named[0]
    elif operation != "publish large":
        assert max(syncs) > steps.index("rename")


@pytest.mark.parametrize("body", [SMALL, LARGE])
def test_a_failed_sync_is_no_success_and_leaves_no_message(tmp_path: Path, body: bytes) -> None:
    files = WatchedFiles()
    access = RootAccess(disk(tmp_path), files)
    access.create_queue(ORDERS)
    files.fail("sync", "sync_file_system", code=errno.EIO)

    with pytest.raises(StoreUnavailable):
        send(access, body)

    access.close()
    root = tmp_path / "root"
    assert os.listdir(root / "new") == names_in(root / "queues" / "orders") == []


def test_a_failed_sync_at_receive_leaves_the_message_under_a_lease_nobody_has(
    tmp_path: Path,
) -> None:
    files = WatchedFiles()
    access = RootAccess(disk(tmp_path), files)
    access.create_queue(ORDERS)
    message_id = send(access)
    files.fail("sync", "sync_file_system", code=errno.EIO)

    with pytest.raises(StoreUnavailable, match="could not be synced"):
        access.receive(ORDERS, None)

    access.close()
    assert names_in(tmp_path / "root" / "delay") == [f"orders:{message_id}"]


def test_a_file_system_that_became_read_only_is_no_defect_of_mqctl(
    access: RootAccess, root: Path
) -> None:
    send(access)
    files = WatchedFiles()
    files.fail("open_unnamed", code=errno.EROFS)
    with (
        closing(RootAccess(root, files)) as other,
        pytest.raises(StoreUnavailable, match="Read-only file system"),
    ):
        other.receive(ORDERS, None)


def test_nothing_is_synced_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mq.spool.file_system.file_system_kind", lambda _: "tmpfs")
    files = WatchedFiles()
    access = RootAccess(tmp_path / "root", files)
    access.create_queue(ORDERS)
    files.calls.clear()

    send(access)
    take(access)

    access.close()
    assert files.syncs() == 0


def test_a_process_that_dies_anywhere_loses_no_message_it_had_sent(tmp_path: Path) -> None:
    """Send, receive and remove, cut off after every number of changes."""
    calls = 0
    while True:
        root = tmp_path / str(calls)
        files = MortalFiles()
        access = RootAccess(root, files)
        access.create_queue(ORDERS)
        message_id, removed = send(access), False
        files.calls_left = calls
        try:
            access.receive(ORDERS, None)
            access.remove(ORDERS, message_id, None)
            removed = True
        except StoreUnavailable:
            pass
        files.calls_left = None
        access.close()

        left = [path for path in root.rglob(f"*{message_id}") if path.is_file()]
        assert len(left) == 1
        if removed:
            assert left[0].parent.name == "remove"
            break
        calls += 1
    assert calls >= 4


@pytest.mark.parametrize("body", [SMALL, LARGE])
def test_a_damaged_message_is_set_aside_and_the_next_is_taken(
    access: RootAccess, root: Path, body: bytes
) -> None:
    damaged, whole = send(access, body), send(access, body)
    path = root / "queues" / "orders" / damaged
    path.write_bytes(b"x" * len(body))

    message, received = take(access)

    assert (message.message_id, received) == (whole, body)
    assert names_in(root / "corrupt") == [f"orders:{damaged}"]


def test_a_message_that_somebody_else_holds_is_passed_over(
    access: RootAccess, spool: Spool
) -> None:
    first, second = send(access), send(access)
    held = hold(spool.files, spool.fd(Folder.QUEUES), f"orders/{first}")
    assert isinstance(held, Held)

    with held:
        assert take(access)[0].message_id == second

    assert take(access)[0].message_id == first


def test_a_guarded_removal_waits_for_no_lock_for_long(access: RootAccess, spool: Spool) -> None:
    send(access)
    message, _ = take(access)
    lease, message_id = int(str(message.lease), 16), MessageId(message.message_id)
    held = hold(spool.files, spool.fd(Folder.DELAY), f"orders:{message_id}")
    assert isinstance(held, Held)

    with held, pytest.raises(StoreUnavailable, match="held by another process"):
        access.remove(ORDERS, message_id, lease)
    with pytest.raises(LeaseMismatch):
        access.remove(ORDERS, message_id, lease ^ 1)
    access.remove(ORDERS, message_id, lease)

    assert names_in(spool.root / "delay") == []


def test_making_a_queue_finishes_its_deletion_first(access: RootAccess, spool: Spool) -> None:
    send(access)
    send(access)
    take(access)
    begin_deletion(spool, ORDERS)

    assert access.create_queue(ORDERS)

    assert access.describe_queue(ORDERS)[1:4] == (0, 0, 0)
    assert names_in(spool.root / "delay") == []


def test_create_makes_a_root_and_nothing_else_does(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for root in (tmp_path / "missing", tmp_path / "empty"):
        access = RootAccess(root)
        for act in (access.list_queues, lambda access=access: send(access)):
            with pytest.raises(Exception, match="there is no folder /"):
                act()

        assert access.create_queue(ORDERS)
        assert (root / "format").read_text() == "mq 1\n"
        access.close()


def test_without_a_format_file_messages_come_and_go(access: RootAccess, root: Path) -> None:
    (root / "format").unlink()

    message_id = send(access)

    assert take(access)[0].message_id == message_id
    assert not (root / "format").exists()


def test_create_makes_no_root_where_something_else_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    access = RootAccess(tmp_path)

    with pytest.raises(Exception, match="there is no folder /"):
        access.create_queue(ORDERS)

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_visibility_is_as_long_as_asked(access: RootAccess, root: Path) -> None:
    message_id = send(access)

    access.receive(ORDERS, 1000.0)

    status = (root / "delay" / f"orders:{message_id}").stat()
    assert 990e9 < status.st_mtime_ns - status.st_ctime_ns <= 1002e9
    assert read_seal(root / "delay" / f"orders:{message_id}").receive_count == 1


def test_a_batch_with_ids_does_not_open_folders_for_each_line(
    access: RootAccess, root: Path
) -> None:
    """To list `new`, where the batch itself is, for each line took a third of an import's time."""
    assert isinstance(access._files, WatchedFiles)
    opened = []
    # A worker writes those of more than 128 lines.
    for name, lines in ("first", 10), ("few", 150), ("many", 400):
        before = access._files.calls["open_folder"]
        some = (f'{{"id": "{name}-{number}", "body": ""}}' for number in range(lines))
        access.publish_batch(ORDERS, "\n".join(some).encode())
        opened.append(access._files.calls["open_folder"] - before)

    assert opened[2] == opened[1]
    assert len(names_in(root / "queues" / ORDERS)) == 560
