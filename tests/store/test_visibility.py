"""The visibility of a received message is changed under its lease."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mq.errors import StoreUnavailable
from mq.lifecycle import Folder
from mq.names import QueueName, queue_path
from mq.spool.message.held import Held, hold_in
from mq.spool.queue.queues import begin_deletion, finish_deletion
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.stores import ORDERS, publish, receive, store_on


async def test_a_message_that_is_shown_again_is_not_locked_while_the_disk_is_waited_for(
    disk: Path,
) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        await publish(store, b"body")
        received = await receive(store)
        gate = files.hold_back(*SYNCS)
        showing = asyncio.create_task(
            store.change_visibility(ORDERS, received.message_id, received.lease, 0)
        )
        await gate.reached()

        held = hold_in(store._work.spool, Folder.QUEUES, queue_path(ORDERS, received.message_id))
        gate.open()

        assert isinstance(held, Held)
        held.close()
        assert await showing


async def test_a_message_that_cannot_die_just_now_stays_under_its_lease(root: Path) -> None:
    """The queue for dead letters is being deleted."""
    dead = QueueName("orders.dead")
    async with store_on(root, max_receives=1) as store:
        await store.create_queue(dead)
        await publish(store, b"body")
        received = await receive(store)
        assert begin_deletion(store._work.spool, dead)

        with pytest.raises(StoreUnavailable):
            await store.change_visibility(ORDERS, received.message_id, received.lease, 0)
        finish_deletion(store._work.spool, dead)

        assert await store.change_visibility(ORDERS, received.message_id, received.lease, 0)
        assert (root / "queues" / dead / received.message_id).exists()
