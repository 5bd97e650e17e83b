"""Changing settings: what was answered outlives a power cut, what was refused changes nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from mq.commit.barrier import Barrier
from mq.commit.blocking import BlockingCommitter
from mq.config import ServerConfig
from mq.disk.files import Files
from mq.errors import InvalidRequest, QueueNotFound, StoreUnavailable
from mq.names import QueueName
from mq.spool.queue.queues import begin_deletion, finish_deletion
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper
from mq.store.queue.queues import create_queue
from mq.store.queue.settings import change_settings, settings_of
from mq.store.shared_state import Workspace
from mq.store.store import Store
from tests.crash.power import Disk, PowerFiles
from tests.support.descriptors import open_paths
from tests.support.faults import WatchedFiles
from tests.support.stores import ORDERS, publish, receive

OLD, NEW = {"delay": 5}, {"delay": 5, "ttl": 60}
MOST_CALLS = 12


def _change(spool: Spool, changes: dict[str, str], queue: QueueName = ORDERS) -> None:
    """Change settings like a process of its own, without an event loop."""
    work = Workspace(spool, ServerConfig(root=spool.root), lambda: None)
    committer = BlockingCommitter(Barrier(spool), work.begin_round, work.end_calls)
    try:
        committer.run(change_settings(work, queue, changes))
    finally:
        work.ready.close()
        committer.close()


def test_a_queue_that_is_deleted_before_its_settings_change_is_made_again(
    spool: Spool, files: WatchedFiles, open_spool: Callable[[Files], Spool]
) -> None:
    another = open_spool(WatchedFiles())

    def delete(*_: object) -> None:
        del files.before["open_to_look"]
        assert begin_deletion(another, ORDERS)
        finish_deletion(another, ORDERS)

    files.before["open_to_look"] = delete
    work = Workspace(spool, ServerConfig(root=spool.root), lambda: None)
    committer = BlockingCommitter(Barrier(spool), work.begin_round, work.end_calls)
    with closing(committer), closing(work.ready):
        assert committer.run(create_queue(work, ORDERS, {"ttl": "60"}))

    assert "open_to_look" not in files.before
    assert settings_of(spool, ORDERS).ttl_seconds == 60


def test_a_queue_that_is_deleted_once_it_was_found_is_not_taken_for_a_strange_folder(
    spool: Spool, files: WatchedFiles, open_spool: Callable[[Files], Spool]
) -> None:
    another = open_spool(WatchedFiles())
    looks: list[object] = []

    def delete(*_: object) -> None:
        looks.append(None)
        if len(looks) == 2:
            assert begin_deletion(another, ORDERS)

    files.before["status_of"] = delete
    work = Workspace(spool, ServerConfig(root=spool.root), lambda: None)
    committer = BlockingCommitter(Barrier(spool), work.begin_round, work.end_calls)
    refusal = pytest.raises(StoreUnavailable, match="is being deleted by another process")
    with closing(committer), closing(work.ready), refusal:
        committer.run(create_queue(work, ORDERS))


@pytest.mark.parametrize("kept", [0.0, 0.5, 1.0])
def test_a_power_cut_after_each_call_leaves_the_old_or_the_new_ones(
    tmp_path: Path,
    spool: Spool,
    orders: Path,
    open_spool: Callable[[Files], Spool],
    kept: float,
) -> None:
    outcomes = []
    for calls in range(MOST_CALLS):
        (orders / ".settings").write_text("delay=5\n")
        disk = Disk(tmp_path / f"graveyard-{calls}")
        files = PowerFiles(disk)
        cut_off = open_spool(files)
        disk.note_sync_of_all(0)
        files.calls_left = calls
        is_answered = False
        with suppress(OSError, StoreUnavailable):
            _change(cut_off, {"ttl": "60"})
            is_answered = files.calls_left > 0
        files.calls_left = 0
        cut_off.close()
        disk.cut(kept)

        found = settings_of(spool, ORDERS).document()
        assert found == NEW if is_answered else found in (OLD, NEW)
        Sweeper(spool, lambda *_: None).sweep()
        assert os.listdir(spool.root / "new") == []
        outcomes.append(is_answered)
    assert not outcomes[0]
    assert outcomes[-1]


def test_a_queue_that_is_not_there_has_none(spool: Spool) -> None:
    with pytest.raises(QueueNotFound):
        _change(spool, {"ttl": "60"}, QueueName("nowhere"))
    with pytest.raises(QueueNotFound):
        settings_of(spool, QueueName("nowhere"))


@pytest.mark.parametrize(
    "changes",
    [{"ttl": "never"}, {f"x.n{at}": "y" * 4000 for at in range(17)}],
    ids=["wrong", "too many"],
)
def test_a_queue_with_a_wrong_setting_is_not_made(spool: Spool, changes: dict[str, str]) -> None:
    work = Workspace(spool, ServerConfig(root=spool.root), lambda: None)

    with pytest.raises(InvalidRequest):
        BlockingCommitter().run(create_queue(work, QueueName("another"), changes))

    assert os.listdir(spool.root / "queues") == ["orders"]
    work.ready.close()


async def test_a_barrier_that_fails_is_no_success(
    disk: Path, store: Store, files: WatchedFiles
) -> None:
    files.fail("sync", "sync_file_system", times=8)

    with pytest.raises(StoreUnavailable):
        await store.create_queue(ORDERS, {"ttl": "60"})


async def test_a_barrier_that_fails_meanwhile_leaves_nothing_of_a_new_queue(
    disk: Path, store: Store, files: WatchedFiles
) -> None:
    gate = files.hold_back("make_folder")
    making = asyncio.ensure_future(store.create_queue(QueueName("another"), {"ttl": "60"}))
    await gate.reached()
    files.fail("sync", "sync_file_system")
    with pytest.raises(StoreUnavailable):
        await publish(store, b"body")
    gate.open()

    with pytest.raises(StoreUnavailable):
        await making
    assert os.listdir(disk / "new") == []
    assert not any("another:" in path for path in open_paths())


async def test_what_was_answered_counts_at_once(store: Store) -> None:
    for seconds in ("7", "8", "9"):
        await store.create_queue(ORDERS, {"visibility": seconds})
        assert (await store.describe_queue(ORDERS)).settings.visibility_seconds == float(seconds)


async def test_changes_are_made_while_others_make_sure_that_the_queue_is_there(
    store: Store,
) -> None:
    async def change() -> None:
        for seconds in range(1, 21):
            await store.create_queue(ORDERS, {"visibility": str(seconds)})

    async def make_sure() -> None:
        for _ in range(50):
            await store.create_queue(ORDERS)

    await asyncio.gather(change(), change(), make_sure())

    assert (await store.describe_queue(ORDERS)).settings.visibility_seconds == 20


async def test_what_else_is_asked_of_the_queue_in_the_same_round_is_done(store: Store) -> None:
    """A change of settings lets go of the queue's folder, in which the receive is at work."""
    published = await publish(store, b"body")
    await store.describe_queue(ORDERS)

    received, _ = await asyncio.gather(
        receive(store), store.create_queue(ORDERS, {"visibility": "60"})
    )

    assert received.message_id == published


def test_a_folder_that_is_opened_again_meanwhile_is_that_of_the_queue(
    spool: Spool, files: WatchedFiles
) -> None:
    files.before["replace"] = lambda *_: spool.queues.drop(ORDERS)

    _change(spool, {"ttl": "60"})

    assert settings_of(spool, ORDERS).ttl_seconds == 60


def test_a_folder_that_is_in_the_way_is_named_with_the_way_out(spool: Spool, orders: Path) -> None:
    (orders / ".settings").mkdir()

    with pytest.raises(StoreUnavailable, match=r"queues/orders/\.settings is a folder") as refused:
        _change(spool, {"ttl": "60"})

    assert "mqctl fsck --repair" in str(refused.value)
    assert os.listdir(spool.root / "new") == []
