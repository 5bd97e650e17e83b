"""Publishes to several queues in one turn of the event loop: one operation for all, and what is
wrong with one queue costs no other."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from mq.commit.operation import Submitted
from mq.disk.files import Files
from mq.errors import QueueIsFifo, QueueNotFound, StoreUnavailable
from mq.names import MessageId, QueueName
from mq.store.publishing.publish import Draft, Published
from mq.store.store import Store
from tests.support.descriptors import open_descriptors
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.messages import names_in
from tests.support.stores import ORDERS, draft_of, drain, publish, store_on
from tests.support.submits import answered, ids_of, publish_each

TEAS, CAKES = QueueName("teas"), QueueName("cakes")
QUEUES = (ORDERS, TEAS, CAKES)


@asynccontextmanager
async def store_of_three(root: Path, files: Files | None = None) -> AsyncIterator[Store]:
    async with store_on(root, files) as store:
        for queue in QUEUES:
            await store.create_queue(queue)
        yield store


async def test_those_of_several_queues_are_one_operation(
    root: Path, submitted: list[Submitted]
) -> None:
    async with store_of_three(root) as store:
        outcomes = await publish_each(
            store, *((queue, draft_of(b"body")) for queue in (ORDERS, TEAS, CAKES, TEAS))
        )

        assert [each.requests for each in submitted] == [4]
        orders, tea, cake, more_tea = ids_of(outcomes)
        assert await drain(store, ORDERS) == [orders]
        assert await drain(store, TEAS) == [tea, more_tea]
        assert await drain(store, CAKES) == [cake]
        assert [store._work.counts.of(queue).published for queue in QUEUES] == [1, 2, 1]
        assert not store._work.undelivered


async def test_a_queue_that_is_missing_full_or_fifo_costs_no_other(root: Path) -> None:
    fifo, missing = QueueName("line.fifo"), QueueName("missing")
    async with store_of_three(root) as store:
        await store.create_queue(fifo)
        await store.change_settings(TEAS, {"max-messages": "1"})
        await publish(store, b"body", TEAS)

        outcomes = await publish_each(
            store, *((queue, draft_of(b"body")) for queue in (missing, ORDERS, TEAS, fifo, CAKES))
        )

        assert [type(each) for each in outcomes] == [
            QueueNotFound, Published, StoreUnavailable, QueueIsFifo, Published
        ]  # fmt: skip
        assert await drain(store, ORDERS) + await drain(store, CAKES) == ids_of(outcomes)


async def test_a_queue_that_another_process_has_to_itself_keeps_no_other_waiting(
    root: Path,
) -> None:
    others = Files()
    async with store_of_three(root) as store:
        folder = others.open_folder(None, str(root / "queues" / TEAS))
        assert others.lock(folder)
        orders, teas, cakes = [
            asyncio.ensure_future(answered(store.submit_publish, queue, draft_of(b"body")))
            for queue in QUEUES
        ]

        async with asyncio.timeout(20):
            await asyncio.gather(orders, cakes)
            assert not teas.done()
            others.close(folder)
            published = await teas
        assert await drain(store, TEAS) == [published.message_id]


def lock_while_synced(files: WatchedFiles, folder: Path) -> list[int]:
    """Let another process take a queue for itself while messages are made durable. Returns where
    the descriptor of its lock will be."""
    others, locked = Files(), list[int]()

    def lock(*_: object) -> None:
        files.before.clear()
        locked.append(others.open_folder(None, str(folder)))
        assert others.lock(locked[0])

    files.before |= dict.fromkeys(SYNCS, lock)
    return locked


async def test_a_queue_that_is_locked_before_delivery_keeps_no_other_waiting(disk: Path) -> None:
    files = WatchedFiles()
    async with store_of_three(disk, files) as store:
        await publish_each(store, *((queue, draft_of(b"first")) for queue in QUEUES))
        for queue in QUEUES:
            await drain(store, queue)
        descriptors = open_descriptors()
        locked = lock_while_synced(files, disk / "queues" / TEAS)
        orders, *teas, cakes = [
            asyncio.ensure_future(answered(store.submit_publish, queue, draft_of(b"body")))
            for queue in (ORDERS, TEAS, TEAS, CAKES)
        ]

        async with asyncio.timeout(20):
            outcomes = [*await asyncio.gather(orders, cakes)]
            assert not any(each.done() for each in teas)
            assert store._work.undelivered == {TEAS: 2}
            os.close(locked[0])
            published = await asyncio.gather(*teas)

        assert await drain(store, ORDERS) + await drain(store, CAKES) == ids_of(outcomes)
        assert set(await drain(store, TEAS)) == {each.message_id for each in published}
        assert not store._work.undelivered
        assert open_descriptors() <= descriptors


async def test_while_it_is_locked_a_failed_sync_leaves_the_delivery_to_a_sweep(disk: Path) -> None:
    files = WatchedFiles()
    async with store_of_three(disk, files) as store:
        await publish(store, b"first")
        locked = lock_while_synced(files, disk / "queues" / TEAS)
        orders, teas, cakes = [
            asyncio.ensure_future(answered(store.submit_publish, queue, draft_of(b"body")))
            for queue in QUEUES
        ]
        async with asyncio.timeout(20):
            await asyncio.gather(orders, cakes)
            for each in SYNCS:
                files.fail(each, code=errno.EIO)
            [outcome] = await publish_each(store, (ORDERS, draft_of(b"refused")))
            published = await teas
        os.close(locked[0])

        assert isinstance(outcome, StoreUnavailable)
        async with asyncio.timeout(20):
            assert await _drain_once_reopened(store, TEAS) == [published.message_id]
        assert not store._work.undelivered


async def _drain_once_reopened(store: Store, queue: QueueName) -> list[MessageId]:
    found: list[MessageId] = []
    while not found:
        await asyncio.sleep(0.01)
        with suppress(StoreUnavailable):
            found = await drain(store, queue)
    return found


async def test_a_delay_is_that_of_the_queue(root: Path) -> None:
    async with store_of_three(root) as store:
        await store.change_settings(TEAS, {"delay": "1000"})
        drafts = [Draft(4, 0, body=b"body", delay_ns=None) for _ in QUEUES]

        outcomes = await publish_each(store, *zip(QUEUES, drafts, strict=True))

        delays = [each.visible_ns for each in outcomes if isinstance(each, Published)]
        assert [each is None for each in delays] == [True, False, True]


async def test_a_queue_that_is_deleted_before_delivery_costs_no_other(disk: Path) -> None:
    files = WatchedFiles()
    async with store_of_three(disk, files) as store:
        await publish(store, b"first")
        await drain(store)

        def delete(*_: object) -> None:
            files.before.clear()
            (disk / "queues" / TEAS).rename(disk / "remove" / f"{TEAS}:.deleting")

        files.before |= dict.fromkeys(SYNCS, delete)

        outcomes = await publish_each(store, *((queue, draft_of(b"body")) for queue in QUEUES))

        assert [type(each) for each in outcomes] == [Published, QueueNotFound, Published]
        assert await drain(store, ORDERS) + await drain(store, CAKES) == ids_of(outcomes)
        assert names_in(disk / "new") == []
