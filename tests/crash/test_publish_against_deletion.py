"""A publisher is killed right after its message has a name, while another process deletes the queue
and makes it again: the new queue never sees that message."""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from mq.commit.operation import Operation
from mq.config import ServerConfig
from mq.disk.files import Files
from mq.errors import MessageNotFound, QueueNotFound
from mq.lifecycle import Folder
from mq.names import MessageId
from mq.spool.message.seal import NO_LEASE
from mq.spool.open_queues import OpenQueues
from mq.spool.queue.queues import begin_deletion, finish_deletion, make_queue
from mq.spool.root import open_root
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from mq.store.by_id import take
from mq.store.opening import open_store
from mq.store.publishing.publish import Draft, publish
from mq.store.removing.remove import remove
from mq.store.removing.remove_under_lease import remove_leased
from mq.store.shared_state import Workspace
from tests.support.faults import WATCHED, CountedFiles, WatchedFiles
from tests.support.file_work import run_to_need
from tests.support.messages import names_in, seal_of, write_message
from tests.support.stores import ORDERS, store_on
from tests.support.stores import publish as publish_through

UNDISTURBED, FINISHED, WAITING = 0, 1, 2
"""How the publisher's process ends: nothing happened to it, the deletion was over before its next
call, or the deletion could not be finished yet."""


def _interrupted(call_number: int, happens: Callable[[], None]) -> CountedFiles:
    """Something else happens before the call of that number."""
    files = CountedFiles(WATCHED, happens)
    files.calls_left = call_number
    return files


def _open(root: Path) -> Spool:
    return open_root(root, 0o700, Files())[0]


def _begin_to_delete(root: Path) -> int:
    with closing(_open(root)) as spool:
        begin_deletion(spool, ORDERS)
        try:
            finish_deletion(spool, ORDERS)
        except BlockingIOError:
            return WAITING
    return FINISHED


def _publish_and_be_killed(root: Path, interrupted_at: int) -> int:
    """Publish in a process of its own, which ends right after the link. Before its file call of
    that number another process deletes the queue."""
    pid = os.fork()
    if pid == 0:
        ended = UNDISTURBED

        def delete() -> None:
            nonlocal ended
            ended = _begin_to_delete(root)

        try:
            work = Workspace(_open(root), ServerConfig(root=root), lambda: None)
            work.begin_round()
            files = work.files = work.spool.files = _interrupted(interrupted_at, delete)
            work.spool.queues = OpenQueues(files, work.spool.fd(Folder.QUEUES))
            with suppress(QueueNotFound):
                run_to_need(publish(work, ORDERS, Draft(3, zlib.crc32(b"old"), None, b"old")))
            os._exit(ended)
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_queue_made_again_never_sees_what_a_killed_publisher_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mq.spool.queue.queues.FOLDER_LOCK_SECONDS", 0)
    ends: list[int] = []
    while UNDISTURBED not in ends:
        root = tmp_path / str(len(ends))
        with closing(_open(root)) as spool:
            make_queue(spool.files, spool.fd(Folder.QUEUES), ORDERS)

            ends.append(_publish_and_be_killed(root, interrupted_at=len(ends)))
            sweeper = Sweeper(spool, lambda *_: None)
            sweeper.sweep()
            make_queue(spool.files, spool.fd(Folder.QUEUES), ORDERS)
            sweeper.sweep()

        waiting = names_in(root / "new") + names_in(root / "queues" / "orders")
        assert len(waiting) == (ends[-1] == UNDISTURBED)
    assert set(ends) == {FINISHED, WAITING, UNDISTURBED}


@pytest.mark.parametrize("operation", ["take", "remove", "remove under a lease"])
def test_queue_made_again_never_sees_what_was_taken_out_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """A message of the old queue lies neither in `delay` nor, where a publish under its id would
    find it, in `remove`."""
    monkeypatch.setattr("mq.spool.queue.queues.FOLDER_LOCK_SECONDS", 0)
    message_id = MessageId("own")
    ends: list[int] = []
    while UNDISTURBED not in ends:
        root, end = tmp_path / f"{len(ends)}", UNDISTURBED
        with closing(_open(root)) as spool:
            make_queue(spool.files, spool.fd(Folder.QUEUES), ORDERS)
            write_message(root / "queues" / "orders" / message_id, b"old", seal=seal_of(b"old"))

            def delete(root: Path = root) -> None:
                nonlocal end
                end = _begin_to_delete(root)

            work = Workspace(spool, ServerConfig(root=root), lambda: None)
            work.begin_round()
            files = _interrupted(len(ends), delete)
            work.files = spool.files = files
            spool.queues = OpenQueues(files, spool.fd(Folder.QUEUES))
            with suppress(QueueNotFound, MessageNotFound):
                run_to_need(_take_out(operation, work, message_id))
            files.calls_left = None
            ends.append(end)
            work.end_calls()
            work.ready.close()
            Sweeper(spool, lambda *_: None).sweep()
            make_queue(spool.files, spool.fd(Folder.QUEUES), ORDERS)

        if end != UNDISTURBED:
            assert names_in(root / "queues" / "orders") == names_in(root / "delay") == []
            assert "orders:own" not in names_in(root / "remove")
    assert set(ends) == {FINISHED, WAITING, UNDISTURBED}


def _take_out(operation: str, work: Workspace, message_id: MessageId) -> Operation[object]:
    if operation == "take":
        return take(work, ORDERS, message_id, 1_000_000_000, None)
    if operation == "remove":
        return remove(work, ORDERS, message_id)
    return remove_leased(work, ORDERS, message_id, frozenset({NO_LEASE}))


async def test_deletion_behind_a_stopped_publisher_is_answered_and_finished_later(
    disk: Path,
) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store, open_store(ServerConfig(root=disk)) as other:
        gate = files.hold_back("link")
        publishing = asyncio.create_task(publish_through(store, b"old"))
        await gate.reached()

        await other.delete_queue(ORDERS)
        assert names_in(disk / "remove") == ["orders:.deleting"]
        gate.open()
        with pytest.raises(QueueNotFound):
            await publishing

        assert await other.create_queue(ORDERS)
        assert names_in(disk / "queues" / "orders") == []
