"""fsck: copies of one message in several queues are messages of their own, wherever they go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from mq.names import MessageId, QueueName
from mq.spool.spool import Spool
from mq.store.moving.move import Moving
from mq.store.store import Store
from tests.support.fsck import Fsck
from tests.support.stores import ORDERS, draft_of, drain, receive, store_on

BILLS, DEAD, GRAVE = QueueName("bills"), QueueName("orders.dead"), QueueName("graveyard")


@pytest.fixture
def fsck(spool: Spool) -> Fsck:
    return Fsck(spool)


async def publish_copies(store: Store, *also: QueueName, own: str | None = None) -> MessageId:
    for queue in (*also, GRAVE):
        await store.create_queue(queue)
    message_id = None if own is None else MessageId(own)
    return (await store.publish(ORDERS, draft_of(b"body", message_id), also)).message_id


async def move(store: Store, message_id: MessageId, moving: Moving) -> None:
    assert await store.move_by_id(moving, [message_id]) == [None]


@pytest.mark.parametrize("own", [None, "mine"])
async def test_a_copy_among_the_dead_letters_of_the_queue_is_no_second_name(
    root: Path, fsck: Fsck, own: str | None
) -> None:
    async with store_on(root) as store:
        message_id = await publish_copies(store, DEAD, own=own)
        received = await receive(store)
        assert fsck.mend() == []

        await store.remove(ORDERS, received.message_id)

        assert fsck.mend() == []
        assert await drain(store, DEAD) == [message_id]


@pytest.mark.parametrize("own", [None, "mine"])
async def test_a_copy_that_is_moved_to_where_another_was_removed_stays(
    root: Path, fsck: Fsck, own: str | None
) -> None:
    async with store_on(root) as store:
        message_id = await publish_copies(store, BILLS, own=own)
        await store.remove(ORDERS, message_id)
        await move(store, message_id, Moving(BILLS, ORDERS))

        assert fsck.mend() == []
        assert await drain(store) == [message_id]


@pytest.mark.parametrize("queues", [(ORDERS, BILLS), (BILLS, ORDERS)])
async def test_a_dead_letter_stays_where_that_of_another_reader_was_removed(
    root: Path, fsck: Fsck, queues: Sequence[QueueName]
) -> None:
    async with store_on(root) as store:
        message_id = await publish_copies(store, BILLS)
        first, second = queues
        await move(store, message_id, Moving(first, GRAVE, "broken"))
        await store.remove(GRAVE, message_id)
        await move(store, message_id, Moving(second, GRAVE, "broken"))

        assert fsck.mend() == []
        assert await drain(store, GRAVE) == [message_id]


async def test_copies_have_one_place_in_the_order_and_times_of_their_own(root: Path) -> None:
    others = [QueueName(f"reader-{number}") for number in range(63)]
    async with store_on(root) as store:
        first, second = [await publish_copies(store, *others) for _ in range(2)]

        received = [await receive(store, each) for each in (ORDERS, *others)]

        assert {each.message_id for each in received} == {first}
        assert len({each.published_ns for each in received}) == 64
        latest = max(each.published_ns for each in received)
        assert latest < (await receive(store)).published_ns
        assert await drain(store, others[0]) == [second]
