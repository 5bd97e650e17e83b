"""Looks at leased and delayed messages while others change just those."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from mq.lifecycle import State
from mq.names import MessageId, QueueName, file_name
from mq.spool.message.seal import SEAL_ATTRIBUTE
from mq.spool.queue.hidden import HiddenKey, HiddenListing, hidden_keys, list_hidden
from mq.spool.spool import Spool
from mq.store.index import hidden_index
from mq.store.index.hidden_window import HiddenPage
from mq.store.store import Store
from tests.support.messages import new_id, read_seal, seal_of, write_message
from tests.support.stores import LONG_SECONDS, ORDERS, publish_as, store_on


async def delayed(store: Store) -> MessageId:
    return (await publish_as(store, b"body", delay_seconds=LONG_SECONDS)).message_id


async def page(store: Store, state: State) -> list[MessageId]:
    return [each.message_id for each in await store.peek(ORDERS, 1000, state=state)]


def lease_in_place(root: Path, message_id: MessageId) -> None:
    """Begin a lease as another server does by id."""
    path = root / "delay" / file_name(ORDERS, message_id)
    os.setxattr(path, SEAL_ATTRIBUTE, read_seal(path)._replace(lease=7).pack())


async def test_what_comes_while_delay_is_listed_is_on_the_page(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[MessageId] = []

    def list_and_add(spool: Spool, queue: QueueName, after: str, most: int) -> HiddenListing:
        listing = list_hidden(spool, queue, after, most)
        late.append(new_id())
        path = root / "delay" / file_name(ORDERS, late[0])
        write_message(path, seal=seal_of(b"body"), due_in_seconds=LONG_SECONDS)
        return listing

    monkeypatch.setattr(hidden_index, "list_hidden", list_and_add)
    async with store_on(root) as store:
        message_id = await delayed(store)

        assert await page(store, State.DELAYED) == [message_id, *late]


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

        monkeypatch.setattr(hidden_index, "hidden_keys", read_and_lease)

        assert await page(store, State.DELAYED) == [second]
        assert await page(store, State.LEASED) == [first]


async def test_a_message_that_is_leased_after_its_page_was_found_is_not_on_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_on(root) as store:
        first, second = await delayed(store), await delayed(store)
        find = store._work.hidden.page

        def find_and_lease(*given: Any) -> HiddenPage | None:
            found = find(*given)
            if found is not None and found.keys:
                lease_in_place(root, first)
            return found

        monkeypatch.setattr(store._work.hidden, "page", find_and_lease)

        assert await page(store, State.DELAYED) == [second]


class LeakyLock:
    """A lock. When it was released `times` times, something else is done at once, as by a thread
    that has waited for it."""

    def __init__(self, times: int, then: Callable[[], object]) -> None:
        self._lock = Lock()
        self.times = times
        self._then = then

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        self.times -= 1
        if not self.times:
            self._then()


@pytest.mark.parametrize("times", range(1, 10))
@pytest.mark.parametrize("change", ["comes", "is leased"])
async def test_what_changes_when_another_look_is_just_done_is_on_the_next_page(
    root: Path, times: int, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[MessageId] = []

    def change_and_look() -> None:
        if change == "comes":
            late.append(new_id())
            path = root / "delay" / file_name(ORDERS, late[0])
            write_message(path, seal=seal_of(b"body"), due_in_seconds=LONG_SECONDS)
        else:
            lease_in_place(root, first)
        hidden.keep_up()

    async with store_on(root) as store:
        first, second = await delayed(store), await delayed(store)
        hidden = store._work.hidden
        monkeypatch.setattr(hidden, "_lock", LeakyLock(times, change_and_look))
        await page(store, State.DELAYED)

        leased = [first] if change == "is leased" else []
        left = [second] if leased else [first, second, *late]
        assert await page(store, State.DELAYED) == left
        assert await page(store, State.LEASED) == leased
