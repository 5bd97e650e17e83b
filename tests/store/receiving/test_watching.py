"""What is looked at while requests wait: settings, which end a pause, as seldom as may be."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mq.errors import QueueNotFound, StoreUnavailable
from mq.names import QueueName
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.stores import LONG_SECONDS, ORDERS, eventually, publish, store_on
from tests.support.waiting import parked, wait, waiters


async def test_who_waits_learns_of_the_end_of_a_pause_though_a_sync_failed_meanwhile(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mq.store.receiving.watching.RELIST_WAITING_SECONDS", 0.01)
    files = WatchedFiles()
    looks: list[str | None] = []
    async with store_on(disk, files) as store:
        await store.create_queue(ORDERS, {"paused": "true"})
        await store.create_queue(QueueName("teas"))
        message_id = await publish(store, b"body")
        (task,) = await waiters(store, 1)
        committer, call = store._committer, store._committer.call

        async def note_look(*asked: Any) -> Any:
            looks.append(committer.failure)
            return await call(*asked)

        async def was_looked_at_in_vain() -> bool:
            return any(looks)

        monkeypatch.setattr(committer, "call", note_look)
        files.fail(*SYNCS, times=1_000_000)
        with pytest.raises(StoreUnavailable):
            # A message of its own queue would wake the one who waits: it would be refused too.
            await publish(store, b"body", QueueName("teas"))
        await eventually(was_looked_at_in_vain)
        files.before.clear()
        (disk / "queues/orders/.settings").unlink()

        async with asyncio.timeout(20):
            received = await task
        assert received is not None
        assert received.message_id == message_id


async def test_many_queues_are_looked_at_in_a_few_goes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each go is a round of the committer. The end of a pause is seen in each queue."""
    monkeypatch.setattr("mq.store.receiving.watching.RELIST_WAITING_SECONDS", 0.05)
    queues = [QueueName(f"q{number}") for number in range(250)]
    looks: list[list[QueueName]] = []
    async with store_on(root) as store:
        for queue in queues:
            await store.create_queue(queue, {"paused": "true"})
            await publish(store, b"body", queue)
        tasks = [wait(store, queue) for queue in queues]
        for queue in queues:
            await parked(store, 1, queue)
        committer, call = store._committer, store._committer.call

        async def note_look(function: Any, *asked: Any) -> Any:
            looks.extend(asked)
            return await call(function, *asked)

        async def were_all_looked_at() -> bool:
            return len(looks) >= 6

        monkeypatch.setattr(committer, "call", note_look)
        await eventually(were_all_looked_at)
        looked_at = [queue for some in looks[:6] for queue in some]
        assert sorted(looked_at) == sorted(2 * queues)

        for queue in queues:
            (root / "queues" / queue / ".settings").unlink()
        async with asyncio.timeout(20):
            received = await asyncio.gather(*tasks)
        assert all(each is not None for each in received)


@pytest.mark.parametrize("by", ["this server", "another one"])
async def test_who_waits_for_a_paused_queue_learns_at_once_that_it_is_deleted(
    root: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Nobody has listed it: a receive finds first that it is paused."""
    monkeypatch.setattr("mq.store.receiving.watching.RELIST_WAITING_SECONDS", LONG_SECONDS)
    async with store_on(root) as store, store_on(root) as other:
        await store.create_queue(ORDERS, {"paused": "true"})
        (task,) = await waiters(store, 1)

        await (store if by == "this server" else other).delete_queue(ORDERS)

        async with asyncio.timeout(20):
            with pytest.raises(QueueNotFound):
                await task
