"""One request in the lines of several queues: no message is left for one who has another."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from mq.errors import QueueNotFound
from mq.names import QueueName
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from tests.support.stores import LONG_SECONDS, ORDERS, eventually, publish, store_on
from tests.support.waiting import WAIT_SECONDS, got, hold_ready, parked, wait

CAKES = QueueName("cakes")
BOTH = (ORDERS, CAKES)
OTHERS = (CAKES, QueueName("teas"))
ALL = (ORDERS, *OTHERS)


def wait_for(store: Store, queues: Sequence[QueueName]) -> asyncio.Task[list[Received]]:
    first, *others = queues
    return asyncio.create_task(
        store.receive_many(first, 1, LONG_SECONDS, WAIT_SECONDS, then=others)
    )


@pytest.mark.parametrize("loops", range(12))
async def test_who_has_a_message_passes_its_other_turn_on(root: Path, loops: int) -> None:
    """It was woken for a message of one queue and finds one of the other, at any moment."""
    async with store_on(root) as store:
        await store.create_queue(CAKES)
        first = wait_for(store, BOTH)
        await parked(store, 1, CAKES)
        second = wait(store, CAKES)
        await parked(store, 2, CAKES)

        cake = asyncio.create_task(publish(store, b"cake", CAKES))
        for _ in range(loops):
            await asyncio.sleep(0)
        order = asyncio.create_task(publish(store, b"order"))

        async with asyncio.timeout(20):
            taken = [(await first)[0].message_id]
            if taken[0] == await order:
                received = await second
                assert received is not None
                taken.append(received.message_id)
            else:
                second.cancel()
            assert taken[-1] == await cake


async def test_who_gets_a_message_of_another_queue_leaves_one_that_somebody_holds_to_the_next(
    root: Path,
) -> None:
    async with store_on(root) as store:
        await store.create_queue(CAKES)
        message_id = await publish(store, b"held")
        held = hold_ready(root, message_id)
        first = wait_for(store, BOTH)
        await parked(store, 1)
        second = wait(store)
        await parked(store, 2)

        await publish(store, b"cake", CAKES)
        await asyncio.wait({first})
        held.close()

        assert await got(second) == message_id


async def test_who_leaves_is_in_no_line(root: Path) -> None:
    async with store_on(root) as store:
        await store.create_queue(CAKES)
        first = wait_for(store, BOTH)
        await parked(store, 1, CAKES)

        first.cancel()
        await asyncio.wait({first})

        assert store._receives.waiting._lines == {}
        for queue in BOTH:
            message_id = await publish(store, b"body", queue)
            received = await store.receive(queue, LONG_SECONDS)
            assert received is not None
            assert received.message_id == message_id


async def test_a_missing_queue_wakes_those_alone_who_wait_for_it(root: Path) -> None:
    async with store_on(root) as store:
        await store.create_queue(CAKES)
        orders, cakes, both = wait(store), wait(store, CAKES), wait_for(store, BOTH)
        await parked(store, 2)
        await parked(store, 2, CAKES)

        await store.delete_queue(CAKES)

        for each in (cakes, both):
            with pytest.raises(QueueNotFound, match="cakes"):
                async with asyncio.timeout(20):
                    await each
        await parked(store, 1)
        assert not orders.done()
        orders.cancel()


@pytest.mark.parametrize("seed", range(10))
async def test_nobody_waits_beside_a_message_that_is_ready(
    root: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests for one, two or three queues come and leave, while messages come at random."""
    monkeypatch.setattr("mq.store.receiving.watching.RELIST_WAITING_SECONDS", WAIT_SECONDS)
    chance = random.Random(seed)
    async with store_on(root) as store:
        for name in OTHERS:
            await store.create_queue(name)
        waiting: dict[asyncio.Task[list[Received]], Sequence[QueueName]] = {}
        published = 0
        for _ in range(200):
            deed = chance.random()
            if deed < 0.5:
                queues = chance.sample(ALL, chance.randint(1, 3))
                waiting[wait_for(store, queues)] = queues
            elif deed < 0.6 and waiting:
                chance.choice([*waiting]).cancel()
            else:
                await publish(store, b"body", chance.choice(ALL))
                published += 1
            for _ in range(chance.randint(0, 4)):
                await asyncio.sleep(0)

        async def all_is_given_out() -> bool:
            wanted = {queue for task, some in waiting.items() if not task.done() for queue in some}
            counts = [await store.describe_queue(queue) for queue in wanted]
            return not any(each.ready for each in counts)

        await eventually(all_is_given_out)
        given = sum(len(each.result()) for each in waiting if each.done() and not each.cancelled())
        left = sum([(await store.describe_queue(queue)).ready for queue in ALL])
        assert given + left == published
        assert given > 20
        store.stop_waiting()
        await asyncio.wait(waiting)
