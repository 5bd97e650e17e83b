"""The limit of a queue holds for what is on its way there."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mq.disk.calls import CHAINS_AT_ONCE
from mq.errors import StoreUnavailable
from mq.names import QueueName
from mq.spool.rolling import Rolled
from mq.store.publishing.filling import Batch
from mq.store.store import Store
from tests.support.stores import ORDERS, batch_of, draft_of, eventually, publish, receive


async def test_a_long_batch_takes_room_while_it_is_delivered(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker moves its messages, and other requests go on."""
    may_deliver, deliver = threading.Event(), Batch.deliver

    def deliver_late(batch: Batch) -> Rolled:
        assert may_deliver.wait(10)
        return deliver(batch)

    async def is_published() -> bool:
        return store.health.counts.of(ORDERS).published == number

    monkeypatch.setattr(Batch, "deliver", deliver_late)
    number = CHAINS_AT_ONCE + 1
    await store.change_settings(ORDERS, {"max-messages": str(number + 1)})
    entries = batch_of(*(draft_of(b"body") for _ in range(number)))
    publishing = asyncio.create_task(store.publish_batch(ORDERS, entries))
    await eventually(is_published)

    try:
        await publish(store, b"there is room for one")
        with pytest.raises(StoreUnavailable, match="leaves no room for 1 more"):
            await publish(store, b"one too many")
    finally:
        may_deliver.set()
        await publishing
    assert (await store.describe_queue(ORDERS)).ready == number + 1
    assert not store._work.undelivered


@pytest.mark.parametrize("also", [(), (QueueName("returns"),)])
async def test_what_a_worker_has_delivered_is_not_on_its_way_too(
    store: Store, monkeypatch: pytest.MonkeyPatch, also: tuple[QueueName, ...]
) -> None:
    """Events tell of the messages before the worker is done. Another queue has the same ids."""
    is_delivered, may_end, deliver = threading.Event(), threading.Event(), Batch.deliver

    def end_late(batch: Batch) -> Rolled:
        rolled = deliver(batch)
        is_delivered.set()
        assert may_end.wait(10)
        return rolled

    monkeypatch.setattr(Batch, "deliver", end_late)
    number = CHAINS_AT_ONCE + 1
    await store.describe_queue(ORDERS)
    await store.change_settings(ORDERS, {"max-messages": str(number + 1)})
    for each in also:
        await store.create_queue(each)
    entries = batch_of(*(draft_of(b"body") for _ in range(number)))
    publishing = asyncio.create_task(store.publish_batch(ORDERS, entries, also))
    assert await asyncio.to_thread(is_delivered.wait, 10)

    try:
        await publish(store, b"there is room for one")
        with pytest.raises(StoreUnavailable, match="leaves no room for 1 more"):
            await publish(store, b"one too many")
        await receive(store)
        await publish(store, b"there is room again")
    finally:
        may_end.set()
        await publishing
    assert (await store.describe_queue(ORDERS)).ready == number + 1
