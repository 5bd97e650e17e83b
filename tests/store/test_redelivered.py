"""What a server counts as redelivered: what was in its queue before."""

from __future__ import annotations

import time

import pytest

from mq.store.store import Store
from tests.support.messages import SECOND_NS
from tests.support.stores import ORDERS, publish, publish_as, receive


def redelivered(store: Store) -> int:
    return store.health.counts.of(ORDERS).redelivered


async def test_a_delay_that_a_client_ends_is_none(store: Store) -> None:
    """An alert compares what comes back with what is received: a producer that delays each message
    and then lets it go would always set it off."""
    delayed = await publish_as(store, b"body", delay_seconds=100)

    await store.release_by_id(ORDERS, delayed.message_id)

    assert (await store.describe_queue(ORDERS)).ready == 1
    assert redelivered(store) == 0


@pytest.mark.parametrize("how", ["release", "show", "put back"])
async def test_what_was_received_is_one(store: Store, how: str) -> None:
    await publish(store, b"body")
    received = await receive(store)

    match how:
        case "release":
            await store.release_by_id(ORDERS, received.message_id)
        case "show":
            await store.change_visibility(ORDERS, received.message_id, received.lease, 0)
        case _:
            await store.put_back(received)

    assert (await store.describe_queue(ORDERS)).ready == 1
    assert redelivered(store) == 1


async def test_what_was_received_before_its_delay_was_over_is_one(store: Store) -> None:
    """Its receive was counted, and its receiver is gone."""
    delayed = await publish_as(store, b"body", delay_seconds=100)
    received = await store.take(ORDERS, delayed.message_id, 1000)
    store._work.clock_ns = lambda: time.time_ns() + 200 * SECOND_NS

    await store.put_back(received)

    assert (await store.describe_queue(ORDERS)).ready == 1
    assert redelivered(store) == 1
