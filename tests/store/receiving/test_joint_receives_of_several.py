"""Receives of one turn of the event loop that ask for several messages each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mq.commit.operation import Submitted
from mq.config import SMALL_BODY_BYTES
from mq.errors import StoreUnavailable
from mq.names import MessageId, QueueName
from mq.store.answer_memory import MAX_ANSWERS_BYTES
from mq.store.joint import MAX_TOGETHER
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from tests.support.messages import names_in
from tests.support.stores import ORDERS, eventually, publish, store_on
from tests.support.submits import (
    answered,
    name_of,
    note_operations,
    receive_one,
    refuse_at_once,
    refuse_before_its_round,
)


@pytest.fixture
def receives(monkeypatch: pytest.MonkeyPatch) -> list[Submitted]:
    """The operations that take messages for requests."""
    return note_operations(monkeypatch, "lease_some", "lease_each")


def submit_some(store: Store, *limits: int) -> list[asyncio.Future[list[Received]]]:
    """Send requests for up to that many messages each in one turn of the event loop."""
    return [
        asyncio.ensure_future(answered(partial(store.submit_receive, limit=each), ORDERS))
        for each in limits
    ]


async def ask_some(store: Store, *limits: int) -> list[list[MessageId]]:
    async with asyncio.timeout(20):
        taken = await asyncio.gather(*submit_some(store, *limits))
    return [[each.message_id for each in some] for some in taken]


async def test_each_gets_as_many_as_it_asks_for_while_there_are_any(
    root: Path, receives: list[Submitted]
) -> None:
    async with store_on(root) as store:
        ids = [await publish(store, b"body") for _ in range(10)]

        assert await ask_some(store, 3, 1, 4, 5, 2) == [ids[:3], ids[3:4], ids[4:8], ids[8:], []]
        assert receives[0].requests == 5
        assert await ask_some(store, 3) == [[]]


async def test_one_operation_takes_so_many_messages_or_those_of_one_request(
    root: Path, receives: list[Submitted]
) -> None:
    async with store_on(root) as store:
        most = MAX_TOGETHER
        ids = [await publish(store, b"body") for _ in range(2 * most + 12)]

        taken = await ask_some(store, 10, most - 10, 1, most + 1)

        assert [len(each) for each in taken] == [10, most - 10, 1, most + 1]
        assert [each for some in taken for each in some] == ids[: 2 * most + 2]
        assert [each.requests for each in receives] == [2, 1, 1]


async def test_those_of_one_round_have_the_memory_of_one_answer(root: Path) -> None:
    """What they hold it for is over when they are answered."""
    async with store_on(root) as store:
        for _ in range(18):
            await publish(store, b"x" * 1_000_000)

        futures = submit_some(store, 10, 10)
        async with asyncio.timeout(20):
            first, second = await asyncio.gather(*futures)

        assert [len(first), len(second)] == [10, 6]
        assert store.answer_memory._held_bytes == 0
        for each in (*first, *second):
            each.close(store._work.files)


async def test_without_memory_for_answers_each_gets_one_message(root: Path) -> None:
    async with store_on(root) as store:
        ids = [await publish(store, b"body") for _ in range(6)]
        store.answer_memory.change(MAX_ANSWERS_BYTES)

        assert await ask_some(store, 3, 2) == [ids[:1], ids[1:2]]
        store.answer_memory.change(-MAX_ANSWERS_BYTES)
        assert await ask_some(store, 3) == [ids[2:5]]


@pytest.mark.parametrize("refuse", [refuse_at_once, refuse_before_its_round])
async def test_if_the_check_of_a_large_one_is_refused_all_of_that_request_are_given_back(
    root: Path, monkeypatch: pytest.MonkeyPatch, refuse: Callable[[Submitted], None]
) -> None:
    async with store_on(root) as store:
        sizes = [1, SMALL_BODY_BYTES + 1, 1, 1]
        ids = [await publish(store, b"x" * each) for each in sizes]
        committer = store._receives._joint._committer
        submit = committer.submit

        def refuse_checks(submitted: Submitted) -> None:
            (refuse if name_of(submitted) == "check" else submit)(submitted)

        monkeypatch.setattr(committer, "submit", refuse_checks)
        first, second = submit_some(store, 3, 3)

        async def are_back() -> bool:
            return names_in(root / "queues" / ORDERS) == ids[:3]

        with pytest.raises(StoreUnavailable):
            await first
        assert [each.message_id for each in await second] == ids[3:]
        await eventually(are_back)


async def test_a_damaged_message_among_several_is_passed_over(root: Path) -> None:
    async with store_on(root) as store:
        ids = [await publish(store, b"x" * each) for each in (1, SMALL_BODY_BYTES + 1, 1)]
        (root / "queues" / ORDERS / ids[1]).write_bytes(b"y" * (SMALL_BODY_BYTES + 1))

        assert await ask_some(store, 3) == [[ids[0], ids[2]]]
        assert names_in(root / "corrupt") == [f"{ORDERS}:{ids[1]}"]


async def test_requests_for_several_beside_those_to_other_queues(
    root: Path,
) -> None:
    teas = QueueName("teas")
    async with store_on(root) as store:
        await store.create_queue(teas)
        ids = [await publish(store, b"body") for _ in range(4)]
        tea = await publish(store, b"tea", teas)

        [some], other = await asyncio.gather(ask_some(store, 3), receive_one(store, teas))

        assert some == ids[:3]
        assert other is not None
        assert other.message_id == tea
