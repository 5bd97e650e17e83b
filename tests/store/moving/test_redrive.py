"""Redrive: each dead letter goes back to where it died."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from mq.errors import QueueNotFound, StoreUnavailable
from mq.names import MessageId, QueueName
from mq.store.moving.move import Moving
from mq.store.moving.redrive import Redriven, redrive
from mq.store.store import Store
from tests.support.faults import WatchedFiles
from tests.support.stores import ORDERS, drain, publish, publish_as, receive, store_on

DEAD, MAIL = QueueName("failed"), QueueName("mail")
NOTHING: frozenset[MessageId] = frozenset()


async def bury(store: Store, *sources: QueueName) -> list[MessageId]:
    """A dead letter of each of them."""
    await store.create_queue(DEAD)
    await store.create_queue(MAIL)
    ids = [await publish(store, b"a", queue) for queue in sources]
    for message_id, queue in zip(ids, sources, strict=True):
        await store.move_by_id(Moving(queue, DEAD, "max-receives"), [message_id])
    return ids


async def go(store: Store, limit: int = 100, passed: frozenset[MessageId] = NOTHING) -> Redriven:
    return await store.run(lambda work: redrive(work, DEAD, limit, passed))


async def test_the_oldest_go_back_each_to_its_queue(tmp_path: Path) -> None:
    async with store_on(tmp_path) as store:
        ids = await bury(store, ORDERS, MAIL, *[ORDERS] * 40)

        first = await go(store, 2)
        rest = await go(store)

        assert first == Redriven(ids[:2], [], [], [])
        assert rest == Redriven(ids[2:], [], [], [])
        assert await drain(store, ORDERS) == [ids[0], *ids[2:]]
        assert await drain(store, MAIL) == [ids[1]]
        assert await go(store) == Redriven([], [], [], [])


async def test_what_is_received_or_passed_stays(tmp_path: Path) -> None:
    async with store_on(tmp_path) as store:
        ids = await bury(store, ORDERS, ORDERS, ORDERS)
        received = await receive(store, DEAD)

        assert await go(store, 1, frozenset(ids[1:2])) == Redriven([ids[2]], [], [], [])
        await store.remove(DEAD, received.message_id, frozenset({received.lease}))
        assert await drain(store, DEAD) == [ids[1]]


async def test_what_cannot_go_is_reported_and_keeps_no_other_from_going(tmp_path: Path) -> None:
    async with store_on(tmp_path) as store:
        first, second = await bury(store, ORDERS, ORDERS)
        await publish_as(store, b"another", message_id=first)
        lost = await publish(store, b"never received", DEAD)

        assert await go(store) == Redriven([second], [first], [first], [lost])


async def test_what_has_no_room_can_go_later(tmp_path: Path) -> None:
    async with store_on(tmp_path) as store:
        ids = await bury(store, *[ORDERS] * 3)
        await store.change_settings(ORDERS, {"max-messages": "2"})

        assert await go(store) == Redriven(ids[:2], [], [], [])
        with pytest.raises(StoreUnavailable, match="has 2 of the 2 ready messages"):
            await go(store)
        await drain(store)
        assert await go(store) == Redriven(ids[2:], [], [], [])


async def test_a_queue_that_is_gone_is_named(tmp_path: Path) -> None:
    async with store_on(tmp_path) as store:
        await bury(store, MAIL)
        await store.delete_queue(MAIL)

        with pytest.raises(QueueNotFound, match="mail"):
            await go(store)
        assert (await store.describe_queue(DEAD)).ready == 1


@pytest.mark.usefixtures("disk")
async def test_a_failed_sync_is_reported_and_the_redrive_may_be_tried_again(tmp_path: Path) -> None:
    files = WatchedFiles()
    async with store_on(tmp_path, files) as store:
        ids = await bury(store, ORDERS, ORDERS)

        def fail(*_: object) -> None:
            raise OSError(errno.EIO, "broken")

        files.before["sync_file_system"] = files.before["sync"] = fail
        with pytest.raises(StoreUnavailable):
            await go(store)
        files.before.clear()

    async with store_on(tmp_path) as store:
        await go(store)
        assert await drain(store) == ids
