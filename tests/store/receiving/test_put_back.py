"""A message that its receiver never got is put back, and its receive does not count."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mq.store.by_id import Guard
from mq.store.store import Store
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.messages import read_seal
from tests.support.redelivery import redeliver
from tests.support.stores import LONG_SECONDS, ORDERS, drain, eventually, publish, receive


@pytest.fixture
def files() -> WatchedFiles:
    return WatchedFiles()


async def test_it_ends_the_lease_and_takes_the_count_back(store: Store, orders: Path) -> None:
    message_id = await publish(store, b"body")

    await store.put_back(await receive(store))

    assert read_seal(orders / message_id)[3:5] == (0, 0)
    assert (await receive(store)).receive_count == 1


async def test_under_a_stale_lease_it_changes_nothing(store: Store) -> None:
    await publish(store, b"body")
    first = await receive(store)
    await store.put_back(first)
    await receive(store)

    await store.put_back(first)

    assert await drain(store) == []


async def test_a_message_that_was_redelivered_before_has_its_count_back(
    root: Path, store: Store, orders: Path
) -> None:
    message_id = await publish(store, b"body")
    received = await receive(store)
    redeliver(root)

    await store.put_back(received)

    assert read_seal(orders / message_id)[3:5] == (0, 0)


async def test_a_receive_after_it_that_is_over_too_keeps_its_count(
    root: Path, store: Store, orders: Path
) -> None:
    message_id = await publish(store, b"body")
    first = await receive(store)
    redeliver(root)
    second = await receive(store)
    redeliver(root)

    await store.put_back(first)

    assert read_seal(orders / message_id)[3:5] == (2, second.lease)


async def test_a_lease_that_was_only_prolonged_goes_on(root: Path, store: Store) -> None:
    """Its holder works on the message, though the client of the heartbeat left."""
    message_id = await publish(store, b"body")
    lease = (await receive(store)).lease
    prolonged = await store.take(ORDERS, message_id, 2 * LONG_SECONDS, Guard(frozenset({lease})))

    await store.put_back(prolonged)

    path = root / "delay" / f"orders:{message_id}"
    assert read_seal(path)[3:5] == (1, lease)
    assert path.stat().st_mtime_ns == prolonged.visible_ns


async def test_a_message_that_was_taken_out_of_turn_is_under_its_earlier_lease(
    root: Path, store: Store
) -> None:
    message_id = await publish(store, b"body")
    first = await receive(store)
    taken = await store.take(ORDERS, message_id, LONG_SECONDS / 2)

    await store.put_back(taken)

    path = root / "delay" / f"orders:{message_id}"
    assert read_seal(path)[3:5] == (1, first.lease)
    assert path.stat().st_mtime_ns == first.visible_ns


async def test_cancelled_receive_gives_the_message_back(
    disk: Path, store: Store, files: WatchedFiles
) -> None:
    message_id = await publish(store, b"body")
    gate = files.hold_back(*SYNCS)
    receiving = asyncio.create_task(store.receive(ORDERS, LONG_SECONDS))
    await gate.reached()
    receiving.cancel()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await receiving

    async def is_back() -> bool:
        received = await store.receive(ORDERS, LONG_SECONDS)
        return received is not None and (received.message_id, received.receive_count) == (
            message_id,
            1,
        )

    await eventually(is_back)
