"""The order of publication when clocks go wrong: what the files say, what a start makes of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mq.ids import MessageIds
from mq.names import MessageId, QueueName
from mq.store.publishing.publish import Published
from mq.store.store import Store
from tests.support.messages import SECOND_NS
from tests.support.stores import (
    ORDERS,
    batch_of,
    draft_of,
    drain,
    publish,
    publish_as,
    receive,
    store_on,
)


async def _publish_around_a_step(store: Store, step_ns: int) -> list[MessageId]:
    """Half of them before the clock is set; ids of producers and of the server."""
    published = []
    for number in range(12):
        if number == 6:
            store._work.ids._clock_ns = lambda: time.time_ns() + step_ns
        own = MessageId(f"own-{time.time_ns()}") if number % 2 else None
        published.append((await publish_as(store, b"body", message_id=own)).message_id)
    batch = [draft_of(b"body", MessageId(f"line-{9 - n}") if n % 2 else None) for n in range(6)]
    return published + [
        each.message_id for each in await store.publish_batch(ORDERS, batch_of(*batch))
    ]


@pytest.mark.parametrize("hours", [-5, 5])
async def test_order_is_that_of_publication_after_the_clock_was_set(root: Path, hours: int) -> None:
    async with store_on(root) as store:
        published = await _publish_around_a_step(store, hours * 3_600 * SECOND_NS)
        assert [each.message_id for each in await store.peek(ORDERS, 100)] == published
    async with store_on(root) as store:
        assert [each.message_id for each in await store.peek(ORDERS, 100)] == published


@pytest.mark.parametrize("own", [None, "own"])
async def test_what_comes_after_a_restart_with_a_clock_set_back_is_behind(
    root: Path, own: str | None
) -> None:
    """Nothing but the files says how late it was."""
    async with store_on(root) as store:
        store._work.ids._clock_ns = lambda: time.time_ns() + 5 * 3_600 * SECOND_NS
        message_id = None if own is None else MessageId(own)
        first = (await publish_as(store, b"body", message_id=message_id)).message_id
    async with store_on(root) as store:
        more = [
            (await publish_as(store, b"body", message_id=each)).message_id
            for each in (None, MessageId("later"), None)
        ]

        assert await drain(store) == [first, *more]


async def test_a_producers_id_of_a_wrong_clock_does_not_move_that_of_the_server(
    root: Path,
) -> None:
    ahead = MessageIds(lambda: time.time_ns() + 20 * 3_600 * SECOND_NS).next()
    async with store_on(root) as store:
        await publish_as(store, b"body", message_id=ahead)
    async with store_on(root) as store:
        await publish(store, b"body")
        await receive(store)

        received = await receive(store)

        assert abs(received.published_ns - time.time_ns()) < 3_600 * SECOND_NS


async def test_an_own_id_that_a_server_made_brings_its_place_along(root: Path) -> None:
    """Only if that is all of it."""
    upstream = QueueName("upstream")
    async with store_on(root) as store:
        await store.create_queue(upstream)
        made = await publish(store, b"body", upstream)
        first = await publish(store, b"body")
        longer = MessageId(f"{made}-2")
        for own in (longer, made):
            await publish_as(store, b"body", message_id=own)

        assert await drain(store) == [made, first, longer]


@pytest.mark.parametrize("in_a_batch", [False, True], ids=["alone", "in a batch"])
async def test_an_own_id_stays_known_though_the_clock_is_behind_the_birth_of_its_queue(
    root: Path, in_a_batch: bool
) -> None:
    async with store_on(root) as store:
        store._work.ids._clock_ns = lambda: time.time_ns() - 3_600 * SECOND_NS
        own = MessageId("order-4711")

        async def publish_own() -> Published:
            if in_a_batch:
                entries = batch_of(draft_of(b"body", own), draft_of(b"another"))
                return (await store.publish_batch(ORDERS, entries))[0]
            return await publish_as(store, b"body", message_id=own)

        assert not (await publish_own()).is_duplicate
        await store.purge(ORDERS)

        assert (await publish_own()).is_duplicate
