"""Moves between queues while others are at work."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

import pytest

from mq.errors import (
    IdTaken,
    MessageNotFound,
    MQError,
    StoreUnavailable,
)
from mq.names import MessageId
from mq.store.moving import move_many
from mq.store.moving.move import MOVES_AT_ONCE, MovedMessages, Moving
from mq.store.publishing.twins import lock_ids
from mq.store.store import Store
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in
from tests.support.queue_moves import BACK, DEAD, MANY, OTHER, TO_DEAD, with_dead
from tests.support.stores import (
    ORDERS,
    drain,
    publish,
    publish_as,
    store_on,
)

# Others at work


async def test_two_servers_move_each_message_once(root: Path) -> None:
    async with store_on(root) as one, store_on(root) as other:
        await with_dead(one)
        ids = [await publish(one, b"body") for _ in range(200)]

        moved = await asyncio.gather(*(store.move(TO_DEAD, MANY) for store in (one, other) * 3))

        assert sum(each.number for each in moved) == 200
        assert names_in(root / "queues/orders.dead") == sorted(ids)
        assert names_in(root / "queues/orders") == []


async def test_two_servers_move_the_same_ids_to_two_queues(root: Path) -> None:
    async with store_on(root) as one, store_on(root) as other:
        await with_dead(one)
        await one.create_queue(OTHER)
        ids = [await publish(one, b"body") for _ in range(60)]

        first, second = await asyncio.gather(
            one.move_by_id(TO_DEAD, ids), other.move_by_id(Moving(ORDERS, OTHER), ids)
        )

        dead, elsewhere = names_in(root / "queues/orders.dead"), names_in(root / "queues/other")
        assert sorted(dead + elsewhere) == sorted(ids)
        for outcomes, there in ((first, dead), (second, elsewhere)):
            done = [i for i, each in zip(ids, outcomes, strict=True) if each is None]
            assert sorted(done) == there
            assert {type(each) for each in outcomes if each} <= {MessageNotFound}


async def test_movers_there_and_back_lose_and_double_nothing(root: Path) -> None:
    async with store_on(root) as one, store_on(root) as other:
        await with_dead(one)
        ids = [await publish(one, b"body") for _ in range(50)]

        async def there_and_back(store: Store) -> None:
            for _ in range(10):
                await store.move(TO_DEAD, 20)
                await store.move(BACK, 20)

        await asyncio.gather(*(there_and_back(store) for store in (one, other)))

        both = names_in(root / "queues/orders") + names_in(root / "queues/orders.dead")
        assert sorted(both) == sorted(ids)


async def test_receivers_and_a_mover_share_the_messages(root: Path) -> None:
    async with store_on(root) as one, store_on(root) as other:
        await with_dead(one)
        ids = [await publish(one, b"body") for _ in range(100)]

        moved, *drained = await asyncio.gather(
            one.move(TO_DEAD, MANY), drain(other), drain(one), drain(other)
        )

        received = [each for some in drained for each in some]
        dead = names_in(root / "queues/orders.dead")
        assert len(dead) == moved.number
        assert sorted([*received, *dead]) == sorted(ids)


async def test_one_that_somebody_holds_is_passed_over_or_waited_for(root: Path) -> None:
    async with store_on(root) as store:
        await with_dead(store)
        held, free = await publish(store, b"1"), await publish(store, b"2")
        fd = os.open(root / "queues/orders" / held, os.O_RDONLY)
        assert WatchedFiles().lock(fd)

        assert await store.move(TO_DEAD, MANY) == MovedMessages(1, [], [held])
        [busy] = await store.move_by_id(TO_DEAD, [held])
        assert isinstance(busy, StoreUnavailable)
        os.close(fd)

        assert await drain(store) == [held]
        assert await drain(store, DEAD) == [free]


async def test_one_that_goes_while_a_move_passes_it_over_is_not_counted_any_more(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its event comes while the move is under way, which then puts back what it has passed over."""
    async with store_on(root) as store:
        await with_dead(store)
        first, *others = [await publish(store, b"body") for _ in range(MOVES_AT_ONCE + 1)]
        path = root / "queues/orders" / first

        def remove_it(*_: object) -> None:
            if path.exists():
                path.rename(root / f"remove/orders:{first}")

        monkeypatch.setattr(move_many, "count_moved", remove_it)
        with open(path) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert await store.move(TO_DEAD, MANY) == MovedMessages(len(others), [], [first])

        assert (await store.describe_queue(ORDERS)).ready == 0


async def test_one_whose_id_is_being_published_in_the_target_is_passed_over(root: Path) -> None:
    async with store_on(root) as store:
        await with_dead(store)
        one = MessageId("one")
        await publish_as(store, b"body", message_id=one)
        lock = lock_ids(store._work.spool, DEAD, [one])
        assert lock is not None

        assert await store.move(TO_DEAD, MANY) == MovedMessages(0, [], [one])
        os.close(lock)

        assert await store.move(TO_DEAD, MANY) == MovedMessages(1, [], [])


async def test_a_publisher_of_the_same_id_makes_no_second_message(root: Path) -> None:
    """One of the two comes first, and the other is told."""
    async with store_on(root) as one, store_on(root) as other:
        await with_dead(one)
        ids = [MessageId(f"own-{number}") for number in range(40)]
        for each in ids:
            await publish_as(one, b"moved", message_id=each)

        async def publish_there(message_id: MessageId) -> bool:
            try:
                await publish_as(other, b"published", DEAD, message_id)
            except IdTaken:
                return False
            return True

        moving = asyncio.create_task(one.move_by_id(TO_DEAD, ids))
        published = await asyncio.gather(*map(publish_there, ids))
        moved = await moving

        assert [each is None for each in moved] == [not each for each in published]
        assert names_in(root / "queues/orders.dead") == sorted(ids)


async def test_a_queue_that_is_deleted_meanwhile_takes_its_messages_with_it(root: Path) -> None:
    async with store_on(root) as one, store_on(root) as other:
        await with_dead(one)
        ids = [await publish(one, b"body") for _ in range(100)]

        moved, _ = await asyncio.gather(
            one.move(TO_DEAD, MANY), other.delete_queue(ORDERS), return_exceptions=True
        )

        dead = names_in(root / "queues/orders.dead")
        assert set(dead) <= set(ids)
        assert isinstance(moved, MQError | MovedMessages)
        if isinstance(moved, MovedMessages):
            assert len(dead) == moved.number
        await other.create_queue(ORDERS)
        assert await drain(other) == []


async def test_a_target_that_is_deleted_meanwhile_takes_its_messages_with_it(root: Path) -> None:
    async with store_on(root) as one, store_on(root) as other:
        await with_dead(one)
        ids = [await publish(one, b"body") for _ in range(100)]

        await asyncio.gather(
            one.move(TO_DEAD, MANY), other.delete_queue(DEAD), return_exceptions=True
        )

        left = names_in(root / "queues/orders")
        await other.create_queue(DEAD)
        assert await drain(other, DEAD) == []
        assert set(left) <= set(ids)
