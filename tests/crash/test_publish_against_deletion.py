"""A publisher is killed right after its message has a name, while another process deletes the queue
and makes it again: the new queue never sees that message."""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from mq.config import ServerConfig
from mq.errors import QueueNotFound
from mq.lifecycle import Folder
from mq.spool.files import Files
from mq.spool.folders import Spool
from mq.spool.queues import begin_deletion, finish_deletion, make_queue
from mq.spool.root import open_root
from mq.spool.sweep import Sweeper
from mq.store.publish import Draft, publish
from mq.store.upkeep import open_store
from mq.store.workspace import Workspace
from tests.faults import WatchedFiles
from tests.messages import names_in
from tests.stores import ORDERS, store_on
from tests.stores import publish as publish_through

UNDISTURBED, FINISHED, WAITING = 0, 1, 2
"""How the publisher's process ends: nothing happened to it, the deletion was over before its next
call, or the deletion could not be finished yet."""


class InterruptedFiles(WatchedFiles):
    """Lets something else happen before the call of a given number."""

    def __init__(self, call_number: int, happens: Callable[[], None]) -> None:
        super().__init__()
        self._calls_left = call_number
        self._happens = happens

    def _watched(self, name: str, call: Any, *arguments: Any) -> Any:
        if self._calls_left == 0:
            self._happens()
        self._calls_left -= 1
        return super()._watched(name, call, *arguments)


def _open(root: Path) -> Spool:
    return open_root(root, 0o700, Files())[0]


def _begin_to_delete(root: Path) -> int:
    with closing(_open(root)) as spool:
        begin_deletion(spool, ORDERS)
        try:
            finish_deletion(spool, ORDERS)
        except TimeoutError:
            return WAITING
    return FINISHED


def _publish_and_be_killed(root: Path, interrupted_at: int) -> int:
    """In a process of its own, which ends right after the link. Before its file call of that
    number somebody else deletes the queue."""
    pid = os.fork()
    if pid == 0:
        ended = UNDISTURBED

        def delete() -> None:
            nonlocal ended
            ended = _begin_to_delete(root)

        try:
            work = Workspace(_open(root), ServerConfig(root=root), lambda: None)
            work.begin_batch()
            work.files = work.spool.files = InterruptedFiles(interrupted_at, delete)
            with suppress(QueueNotFound):
                next(publish(work, ORDERS, Draft(3, zlib.crc32(b"old"), None, b"old")))
            os._exit(ended)
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_queue_made_again_never_sees_what_a_killed_publisher_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mq.spool.files.FOLDER_LOCK_SECONDS", 0)
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
