"""Who asks for counts while a count is under way shares the next one, and sees what came before."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from threading import Event

import pytest

from mq.errors import StoreUnavailable
from mq.names import QueueName
from mq.spool.spool import Spool
from mq.store import shared_state
from mq.store.hidden_counts import HiddenCount, count_hidden
from mq.store.store import Store
from tests.support.processes import wait_until
from tests.support.stores import LONG_SECONDS, ORDERS, publish_as, store_on

OTHERS = QueueName("others")


class HeldCounts:
    """Counts that wait, once they have looked, until they are let go; the first may fail then."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = Event()
        self.first_fails = False

    def __call__(self, spool: Spool, queue: QueueName) -> HiddenCount:
        found = count_hidden(spool, queue)
        self.begun.append(queue)
        assert self.may_end.wait(60)
        if self.first_fails and len(self.begun) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return found


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldCounts:
    made = HeldCounts()
    monkeypatch.setattr(shared_state, "count_hidden", made)
    return made


def ask(store: Store, queue: QueueName = ORDERS) -> asyncio.Task[int]:
    async def delayed() -> int:
        return (await store.describe_queue(queue)).delayed

    return asyncio.create_task(delayed())


async def publish_delayed(store: Store) -> None:
    """Publish a message that is counted. On return, who has asked before has been heard."""
    await asyncio.sleep(0)
    await publish_as(store, b"body", delay_seconds=LONG_SECONDS)


async def begun(held: HeldCounts, number: int) -> None:
    await asyncio.to_thread(wait_until, lambda: len(held.begun) == number)


async def test_all_who_ask_meanwhile_share_the_next_count(root: Path, held: HeldCounts) -> None:
    async with store_on(root) as store:
        first = ask(store)
        await begun(held, 1)
        await publish_delayed(store)
        meanwhile = [ask(store) for _ in range(5)]
        await publish_delayed(store)
        last = ask(store)
        await publish_delayed(store)
        held.may_end.set()

        assert await first == 0
        assert [await each for each in (*meanwhile, last)] == [3] * 6
        assert held.begun == [ORDERS] * 2
        assert await ask(store) == 3
        assert held.begun == [ORDERS] * 3


async def test_a_count_of_another_queue_does_not_wait(root: Path, held: HeldCounts) -> None:
    async with store_on(root) as store:
        await store.create_queue(OTHERS)
        first = ask(store)
        await begun(held, 1)
        other = ask(store, OTHERS)
        await begun(held, 2)
        held.may_end.set()

        assert [await first, await other] == [0, 0]


async def test_an_error_is_that_of_those_who_asked_for_this_count(
    root: Path, held: HeldCounts
) -> None:
    async with store_on(root) as store:
        held.first_fails = True
        first = ask(store)
        await begun(held, 1)
        next_one = ask(store)
        await publish_delayed(store)
        held.may_end.set()

        with pytest.raises(StoreUnavailable, match="Input/output error"):
            await first
        assert await next_one == 1
