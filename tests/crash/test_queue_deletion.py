"""DELETE of a queue, killed anywhere and under load: a queue made again never sees an old message,
and nothing of another queue is touched."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NoReturn

import pytest

from mq.commit.barrier import Barrier
from mq.commit.blocking import BlockingCommitter
from mq.config import ReaperConfig, ServerConfig
from mq.disk.files import Files
from mq.errors import QueueNotFound
from mq.names import QueueName
from mq.spool.queue.queues import DELETING_SUFFIX, finish_deletion, unfinished_deletions
from mq.spool.root import open_root
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from mq.store.opening import open_store
from mq.store.queue.queues import delete_queue
from mq.store.shared_state import Workspace
from mq.store.store import Store
from mq_reaper.reaper import Reaper
from tests.support.faults import SYNCS, WATCHED, CountedFiles, WatchedFiles
from tests.support.messages import names_in, seal_of, write_message
from tests.support.stores import ORDERS, drain, publish, store_on

QUEUES = ["orders", "orders.dead", "orders-2", "a", "a.b"]
STATES = ["ready", "leased", "delayed", "just published"]
ALL = {queue: {f"{queue}: {state}" for state in STATES} for queue in QUEUES}

deleted = pytest.mark.parametrize("queue", [QueueName("orders"), QueueName("a")])


class Killed(BaseException):
    """No handler in the code catches it."""


def _make_killable() -> CountedFiles:
    """Those of a process that is killed anywhere. Closing is left: the kernel does that."""
    return CountedFiles(WATCHED - {"close"}, _kill)


def _kill() -> NoReturn:
    raise Killed


def _fill(root: Path) -> None:
    """Put a message of each state into each queue."""
    for queue in QUEUES:
        folder = root / "queues" / queue
        folder.mkdir()
        paths = [folder / "1", *(root / "delay" / f"{queue}:{n}" for n in (2, 3))]
        for path, state in zip([*paths, root / "new" / f"{queue}:4"], STATES, strict=True):
            body = f"{queue}: {state}".encode()
            seal = seal_of(body, lease=7 if state == "leased" else 0)
            due = 1000 if path.parent.name == "delay" else None
            write_message(path, body, seal=seal, due_in_seconds=due)


def _alive(root: Path) -> dict[str, set[str]]:
    """The bodies that a receiver of each queue gets, now or later."""
    found: dict[str, set[str]] = {queue: set() for queue in QUEUES}
    for path in [*root.glob("new/*:*"), *root.glob("delay/*:*")]:
        found[path.name.partition(":")[0]].add(path.read_text())
    for path in root.glob("queues/*/*"):
        found[path.parent.name].add(path.read_text())
    return found


def _all_but(queue: str) -> dict[str, set[str]]:
    return ALL | {queue: set()}


def _open(root: Path, files: Files) -> Spool:
    return open_root(root, 0o700, files)[0]


def _is_killed(root: Path, queue: QueueName, calls: int) -> bool:
    """Delete a queue, with every file call as a server makes it, and a kill after `calls` of them.
    Returns False if that is after the last one."""
    files = _make_killable()
    with closing(_open(root, files)) as spool, closing(Barrier(spool)) as barrier:
        work = Workspace(spool, ServerConfig(root=root), lambda: None)
        files.calls_left = calls
        with closing(work.ready):
            try:
                BlockingCommitter(barrier).run(delete_queue(work, queue))
            except Killed:
                return True
    return False


def _roots(disk: Path) -> Iterator[tuple[int, Path]]:
    """A root for the kill before the first file call, for the one before the second, ..."""
    for calls in itertools.count():
        root = disk.with_name(f"root{calls}")
        _open(root, Files()).close()
        yield calls, root


def _reap(root: Path) -> None:
    with closing(Reaper(ReaperConfig(root / "remove", pause_seconds=0), Files())) as reaper:
        reaper.reap()


def _sweep(root: Path) -> None:
    reports: list[tuple[str, str]] = []
    with closing(_open(root, Files())) as spool:
        Sweeper(spool, lambda *report: reports.append(report)).sweep()
        assert unfinished_deletions(spool) == []
    assert reports == []


async def _assert_new_and_empty(store: Store, queue: QueueName) -> None:
    message_id = await publish(store, b"new", queue)
    assert await drain(store, queue) == [message_id]


@deleted
async def test_deletion_killed_anywhere_is_finished_by_the_next_sweep(
    disk: Path, queue: QueueName
) -> None:
    steps = set()
    is_killed = True
    for calls, root in _roots(disk):
        _fill(root)
        is_killed = _is_killed(root, queue, calls)
        has_begun = not (root / "queues" / queue).exists()
        deleting = root / "remove" / f"{queue}{DELETING_SUFFIX}"
        steps.add((has_begun, deleting.exists(), len(_alive(root)[queue])))
        under_way = names_in(deleting) if deleting.exists() else []

        _reap(root)
        assert (names_in(deleting) if deleting.exists() else []) == under_way
        _sweep(root)

        assert _alive(root) == (_all_but(queue) if has_begun else ALL)
        _reap(root)
        assert names_in(root / "remove") == []
        if not is_killed:
            break
        async with open_store(ServerConfig(root=root)) as store:
            assert await store.create_queue(queue) is has_begun
            if has_begun:
                await _assert_new_and_empty(store, queue)
    before, moving, after = (False, False, 4), [(True, True, n) for n in range(4)], (True, False, 0)
    assert steps == {before, *moving, after}


@deleted
async def test_deletion_killed_anywhere_is_finished_by_put_on_the_same_server(
    disk: Path, queue: QueueName
) -> None:
    for calls, root in _roots(disk):
        _fill(root)
        is_killed = _is_killed(root, queue, calls)
        has_begun = not (root / "queues" / queue).exists()

        async with open_store(ServerConfig(root=root)) as store:
            assert await store.create_queue(queue) is has_begun
            assert _alive(root) == (_all_but(queue) if has_begun else ALL)
            if has_begun:
                await _assert_new_and_empty(store, queue)
        if not is_killed:
            break


@deleted
async def test_deletion_killed_anywhere_is_finished_by_put_on_another_server(
    disk: Path, queue: QueueName
) -> None:
    """That server swept before, and knows the queue and what is ready in it."""
    for calls, root in _roots(disk):
        async with open_store(ServerConfig(root=root)) as other:
            _fill(root)
            await other.describe_queue(queue)
            is_killed = _is_killed(root, queue, calls)
            has_begun = not (root / "queues" / queue).exists()

            assert await other.create_queue(queue) is has_begun

            assert _alive(root) == (_all_but(queue) if has_begun else ALL)
            if has_begun:
                await _assert_new_and_empty(other, queue)
        if not is_killed:
            break


def test_who_finishes_a_deletion_may_be_killed_too(disk: Path) -> None:
    for calls, root in _roots(disk):
        _fill(root)
        (root / "queues" / "orders").rename(root / "remove" / f"orders{DELETING_SUFFIX}")
        files = _make_killable()
        with closing(_open(root, files)) as spool:
            files.calls_left = calls
            try:
                finish_deletion(spool, ORDERS)
                is_killed = False
            except Killed:
                is_killed = True

        _sweep(root)

        assert _alive(root) == _all_but("orders")
        if not is_killed:
            assert calls > 6
            break


async def test_message_in_the_middle_of_its_publication_goes_with_the_queue(disk: Path) -> None:
    """It is in `new`, and its publisher waits for the disk while another server deletes the queue
    and makes it again."""
    files = WatchedFiles()
    async with store_on(disk, files) as store, open_store(ServerConfig(root=disk)) as other:
        gate = files.hold_back(*SYNCS)
        publishing = asyncio.create_task(publish(store, b"old"))
        await gate.reached()

        await other.delete_queue(ORDERS)
        assert await other.create_queue(ORDERS)
        gate.open()
        with suppress(QueueNotFound):
            await publishing

        assert os.listdir(disk / "new") == []
        await _assert_new_and_empty(other, ORDERS)
        assert await drain(store) == []


async def test_publish_that_comes_too_late_is_refused_and_leaves_nothing(disk: Path) -> None:
    """Its server looked for the queue just before another one deleted it."""
    files = WatchedFiles()
    async with store_on(disk, files) as store, open_store(ServerConfig(root=disk)) as other:
        gate = files.hold_back("link")
        publishing = asyncio.create_task(publish(store, b"old"))
        await gate.reached()

        await other.delete_queue(ORDERS)
        gate.open()
        with pytest.raises(QueueNotFound):
            await publishing

        assert await other.create_queue(ORDERS)
        assert os.listdir(disk / "new") == []
        await _assert_new_and_empty(other, ORDERS)
