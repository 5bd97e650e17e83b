"""A move ends at a message that its queue would remove at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.errors import TooOld
from mq.names import MessageId, QueueName
from mq.spool.message.held import Held
from mq.store.moving import move
from mq.store.moving.move import MovedMessages, Moving
from mq.store.moving.redrive import Redriven, redrive
from mq.store.place import Place
from mq.store.queue import expiry
from mq.store.shared_state import Workspace
from tests.support.messages import SECOND_NS, pass_a_tick
from tests.support.stores import ORDERS, drain, publish, store_on

OLDER, DEAD = QueueName("older"), QueueName("failed")
HOUR_NS = 3600 * SECOND_NS
HOUR, AT_ONCE = {"ttl": "3600"}, {"ttl": "0.000001"}


@pytest.fixture
def make_old(monkeypatch: pytest.MonkeyPatch) -> Callable[[MessageId], None]:
    """Let a message be older than any queue keeps it."""

    def make(message_id: MessageId) -> None:
        def would_expire(work: Workspace, target: QueueName, place: Place, held: Held) -> bool:
            return place.message_id == message_id

        monkeypatch.setattr(move, "would_expire", would_expire)

    return make


async def test_what_comes_before_it_is_moved_and_counts(
    root: Path, make_old: Callable[[MessageId], None]
) -> None:
    async with store_on(root) as store:
        await store.create_queue(OLDER)
        await store.change_settings(ORDERS, HOUR)
        ids = [await publish(store, b"a", OLDER) for _ in range(4)]
        make_old(ids[2])

        assert await store.move(Moving(OLDER, ORDERS), 10) == MovedMessages(2, [], [])
        with pytest.raises(TooOld, match=ids[2]):
            await store.move(Moving(OLDER, ORDERS), 10)

        assert await drain(store, ORDERS) == ids[:2]
        assert await drain(store, OLDER) == ids[2:]
        assert store.health.counts.of(OLDER).moved == 2


async def test_dead_letters_before_it_are_redriven(
    root: Path, make_old: Callable[[MessageId], None]
) -> None:
    async with store_on(root) as store:
        await store.create_queue(DEAD)
        await store.change_settings(ORDERS, HOUR)
        ids = [await publish(store, b"a") for _ in range(3)]
        await store.move_by_id(Moving(ORDERS, DEAD, "no use"), ids)
        make_old(ids[1])

        some = await store.run(lambda work: redrive(work, DEAD, 10, frozenset()))
        with pytest.raises(TooOld, match=ids[1]):
            await store.run(lambda work: redrive(work, DEAD, 10, frozenset()))

        assert some == Redriven(ids[:1], [], [], [])
        assert await drain(store, ORDERS) == ids[:1]
        assert await drain(store, DEAD) == ids[1:]


async def test_where_no_births_are_kept_it_would_not_be_removed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There a message counts from its last move on, and that is this one."""
    async with store_on(root) as store:
        await store.create_queue(OLDER, AT_ONCE)
        await publish(store, b"a")
        pass_a_tick()

        with pytest.raises(TooOld):
            await store.move(Moving(ORDERS, OLDER), 10)
        monkeypatch.setattr(expiry, "birth_ns", lambda path: None)

        assert (await store.move(Moving(ORDERS, OLDER), 10)).number == 1


@pytest.mark.parametrize("ahead_ns", [-HOUR_NS, HOUR_NS])
async def test_a_server_with_a_wrong_clock_refuses_no_move(root: Path, ahead_ns: int) -> None:
    async with store_on(root) as store:
        await store.create_queue(OLDER, {"ttl": "600"})
        await publish(store, b"a")
        store._work.clock_ns = lambda: time.time_ns() + ahead_ns

        assert (await store.move(Moving(ORDERS, OLDER), 10)).number == 1
