"""Looks at leased and delayed messages while others change just those."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mq.lifecycle import State
from mq.names import MessageId, QueueName, file_name
from mq.spool.message.seal import SEAL_ATTRIBUTE
from mq.spool.queue import hidden
from mq.spool.queue.hidden import HiddenKey, HiddenListing, hidden_keys, list_hidden
from mq.spool.spool import Spool
from mq.store.peeking import peek_hidden
from mq.store.store import Store
from tests.support.messages import read_seal
from tests.support.stores import LONG_SECONDS, ORDERS, publish_as, store_on


async def delayed(store: Store) -> MessageId:
    return (await publish_as(store, b"body", delay_seconds=LONG_SECONDS)).message_id


async def page(store: Store, state: State) -> list[MessageId]:
    return [each.message_id for each in await store.peek(ORDERS, 1000, state=state)]


def lease_in_place(root: Path, message_id: MessageId) -> None:
    """Begin a lease as another server does by id."""
    path = root / "delay" / file_name(ORDERS, message_id)
    os.setxattr(path, SEAL_ATTRIBUTE, read_seal(path)._replace(lease=7).pack())


async def test_a_lease_that_begins_while_seals_are_read_is_seen(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_on(root) as store:
        first, second = await delayed(store), await delayed(store)

        def read_and_lease(
            spool: Spool, queue: QueueName, ids: Sequence[str]
        ) -> Iterable[HiddenKey]:
            read = list(hidden_keys(spool, queue, ids))
            monkeypatch.undo()
            lease_in_place(root, first)
            return read

        monkeypatch.setattr(hidden, "hidden_keys", read_and_lease)

        assert await page(store, State.DELAYED) == [second]
        assert await page(store, State.LEASED) == [first]


async def test_who_asks_while_delay_is_listed_sees_what_came_before(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All who ask meanwhile share the next listing."""
    are_listed, may_end, begun = threading.Event(), threading.Event(), list[str]()

    def list_and_wait(*where: Any) -> HiddenListing:
        listing = list_hidden(*where)
        begun.append(where[1])
        are_listed.set()
        assert may_end.wait(60)
        return listing

    monkeypatch.setattr(peek_hidden, "list_hidden", list_and_wait)
    async with store_on(root) as store:
        first = await delayed(store)
        early = asyncio.create_task(page(store, State.DELAYED))
        await asyncio.to_thread(are_listed.wait)
        second = await delayed(store)
        late = [asyncio.create_task(page(store, State.DELAYED)) for _ in range(5)]
        await asyncio.sleep(0)
        may_end.set()

        assert await early == [first]
        assert await asyncio.gather(*late) == [[first, second]] * 5
        assert len(begun) == 2
