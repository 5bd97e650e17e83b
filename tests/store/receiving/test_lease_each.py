"""Receives of one turn of the event loop from several queues: one operation for all, and what is
unusual about one queue costs no other."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mq.commit.operation import Submitted
from mq.config import SMALL_BODY_BYTES
from mq.disk.files import Files
from mq.errors import QueueIsFifo, QueueNotFound, StoreUnavailable
from mq.names import MessageId, QueueName
from mq.spool.message.seal import Seal
from mq.spool.message.trailer import pack_trailer
from mq.store.receiving.lease import begin_long_lease
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from tests.support.descriptors import count_open, open_descriptors
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.messages import SECOND_NS, names_in, new_id, write_message
from tests.support.stores import (
    LONG_SECONDS,
    ORDERS,
    body_of,
    draft_of,
    publish,
    store_on,
)
from tests.support.submits import note_operations, receive_one

TEAS, CAKES = QueueName("teas"), QueueName("cakes")
QUEUES = (ORDERS, TEAS, CAKES)

Outcome = Received | BaseException | None


@asynccontextmanager
async def store_of_three(
    root: Path, files: Files | None = None, **settings: Any
) -> AsyncIterator[Store]:
    """A store that knows what is in each of its queues."""
    async with store_on(root, files, **settings) as store:
        for queue in QUEUES:
            await store.create_queue(queue)
            await store.describe_queue(queue)
        yield store


async def ask(store: Store, *queues: QueueName) -> list[Outcome]:
    """Return what each receive of one turn returns or raises."""
    asking = [receive_one(store, queue) for queue in queues]
    async with asyncio.timeout(20):
        return [*await asyncio.gather(*asking, return_exceptions=True)]


def ids_of(outcomes: Sequence[Outcome]) -> list[MessageId | None]:
    return [each.message_id if isinstance(each, Received) else None for each in outcomes]


@pytest.fixture
def receives(monkeypatch: pytest.MonkeyPatch) -> list[Submitted]:
    """The operations that take messages for requests."""
    return note_operations(monkeypatch, "lease_some", "lease_each")


def made(receives: Sequence[Submitted]) -> list[tuple[str, int]]:
    """Their names, and how many requests waited for each."""
    return [(getattr(each.operation, "__name__", ""), each.requests) for each in receives]


async def test_each_queue_gives_its_oldest_in_one_operation(
    root: Path, receives: list[Submitted]
) -> None:
    async with store_of_three(root) as store:
        ids = {queue: [await publish(store, b"a", queue) for _ in range(3)] for queue in QUEUES}

        outcomes = await ask(store, ORDERS, TEAS, ORDERS, CAKES, TEAS)

        assert ids_of(outcomes) == [
            ids[ORDERS][0], ids[TEAS][0], ids[ORDERS][1], ids[CAKES][0], ids[TEAS][1]
        ]  # fmt: skip
        assert [each.queue for each in outcomes if isinstance(each, Received)] == [
            ORDERS, TEAS, ORDERS, CAKES, TEAS
        ]  # fmt: skip
        assert made(receives) == [("lease_each", 5)]
        assert sorted(names_in(root / "delay")) == sorted(
            f"{each.queue}:{each.message_id}" for each in outcomes if isinstance(each, Received)
        )
        assert [store._work.counts.of(queue).received for queue in QUEUES] == [2, 2, 1]


async def test_a_lease_is_that_of_its_queue(root: Path) -> None:
    async with store_of_three(root, visibility_seconds=50.0) as store:
        await store.change_settings(TEAS, {"visibility": "500"})
        for queue in QUEUES:
            await publish(store, b"body", queue)

        outcomes = [each for each in await ask(store, *QUEUES) if isinstance(each, Received)]

        orders, teas, cakes = (each.visible_ns // 10**9 for each in outcomes)
        assert 440 <= teas - orders <= 460
        assert abs(cakes - orders) <= 1
        for each in outcomes:
            await store.remove(each.queue, each.message_id, frozenset({each.lease}))


async def test_a_queue_that_is_empty_paused_missing_or_fifo_costs_no_other(root: Path) -> None:
    fifo, missing = QueueName("line.fifo"), QueueName("missing")
    async with store_of_three(root) as store:
        await store.create_queue(fifo)
        await store.change_settings(TEAS, {"paused": "true"})
        await publish(store, b"tea", TEAS)
        message_id = await publish(store, b"cake", CAKES)

        outcomes = await ask(store, missing, ORDERS, TEAS, fifo, CAKES)

        assert ids_of(outcomes) == [None, None, None, None, message_id]
        assert isinstance(outcomes[0], QueueNotFound)
        assert outcomes[1:3] == [None, None]
        assert isinstance(outcomes[3], QueueIsFifo)


async def test_a_queue_that_another_process_has_to_itself_keeps_no_other_waiting(
    disk: Path,
) -> None:
    others = Files()
    async with store_of_three(disk) as store:
        ids = [await publish(store, b"body", queue) for queue in QUEUES]
        folder = others.open_folder(None, str(disk / "queues" / TEAS))
        assert others.lock(folder)
        orders, teas, cakes = [asyncio.ensure_future(receive_one(store, queue)) for queue in QUEUES]

        async with asyncio.timeout(20):
            first, third = await orders, await cakes
            assert not teas.done()
            others.close(folder)
            second = await teas
        assert ids_of([first, second, third]) == ids


async def test_what_expires_and_what_the_index_does_not_know_come_too(root: Path) -> None:
    async with store_on(root) as store:
        for queue in (TEAS, CAKES):
            await store.create_queue(queue)
        await store.change_settings(TEAS, {"ttl": "1000"})
        brought = new_id()
        write_message(root / "queues" / CAKES / brought, b"by hand")
        ids = [await publish(store, b"body", queue) for queue in (ORDERS, TEAS)]

        assert ids_of(await ask(store, *QUEUES)) == [*ids, brought]


async def test_small_large_typed_and_marked_messages_are_whole(root: Path) -> None:
    large = b"x" * (SMALL_BODY_BYTES + 1)
    marked = draft_of(b"marked")
    marked.trailer = pack_trailer({"x-meta-colour": "red"})
    async with store_of_three(root) as store:
        await publish(store, large, ORDERS)
        await store.publish(TEAS, marked)
        await publish(store, b"small", CAKES)

        first, second, third = await ask(store, *QUEUES)

        assert isinstance(first, Received)
        assert isinstance(second, Received)
        assert isinstance(third, Received)
        assert [await body_of(store, each) for each in (first, second, third)] == [
            large, b"marked", b"small"
        ]  # fmt: skip
        assert dict(second.properties) == {"x-meta-colour": "red"}


async def test_in_place_of_a_damaged_message_comes_the_next(root: Path) -> None:
    async with store_of_three(root) as store:
        damaged, whole = [await publish(store, b"tea", TEAS) for _ in range(2)]
        other = await publish(store, b"order", ORDERS)
        (root / "queues" / TEAS / damaged).write_bytes(b"eat")

        assert ids_of(await ask(store, TEAS, ORDERS)) == [whole, other]
        assert names_in(root / "corrupt") == [f"{TEAS}:{damaged}"]


async def test_a_message_that_another_process_holds_is_passed_over(root: Path) -> None:
    others = Files()
    async with store_of_three(root) as store:
        held, free = [await publish(store, b"tea", TEAS) for _ in range(2)]
        other = await publish(store, b"order", ORDERS)
        fd = others.open_message(others.open_folder(None, str(root / "queues" / TEAS)), held)
        assert others.lock(fd)

        assert ids_of(await ask(store, TEAS, ORDERS)) == [free, other]
        for _ in range(2):  # The second one has nothing to learn from the folder.
            assert ids_of(await ask(store, TEAS, ORDERS)) == [None, None]

        others.close(fd)
        assert ids_of(await ask(store, TEAS, ORDERS)) == [held, None]


async def test_what_others_have_taken_away_is_no_error(root: Path) -> None:
    async with store_of_three(root) as store:
        gone, there = [await publish(store, b"tea", TEAS) for _ in range(2)]
        other = await publish(store, b"order", ORDERS)
        (root / "queues" / TEAS / gone).unlink()

        assert ids_of(await ask(store, TEAS, ORDERS)) == [there, other]


@pytest.mark.parametrize(
    "call", ["open_message", "lock", "read", "set_attribute", "stamp", "rename"]
)
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EMFILE])
async def test_a_call_that_fails_for_one_costs_nobody_a_message(
    root: Path, call: str, code: int
) -> None:
    files = WatchedFiles()
    async with store_of_three(root, files) as store:
        ids = [await publish(store, b"body", queue) for queue in QUEUES]
        descriptors = open_descriptors()
        files.fail(call, code=code)

        outcomes = await ask(store, *QUEUES)
        files.before.clear()

        assert ids_of(outcomes)[1:] == ids[1:]
        if ids_of(outcomes)[:1] != ids[:1]:
            assert ids_of(await ask(store, ORDERS, TEAS)) == [ids[0], None]
        assert open_descriptors() == descriptors


async def test_a_failed_barrier_fails_all_and_leaves_nothing_open(disk: Path) -> None:
    files = WatchedFiles()
    async with store_of_three(disk, files) as store:
        for queue in QUEUES:
            await publish(store, b"x" * (SMALL_BODY_BYTES + 1), queue)
        files.fail(*SYNCS)

        outcomes = await ask(store, *QUEUES)

        assert [type(each) for each in outcomes] == [StoreUnavailable] * 3
        assert len(names_in(disk / "delay")) == 3
        assert sum(count_open(disk / "delay" / queue) for queue in QUEUES) == 0


async def test_an_error_in_the_middle_lets_go_of_all_messages(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is leased, open or locked, and the index has all of them again."""
    async with store_of_three(root) as store:
        store._work.spool.use_long_seals()
        ids = [await publish(store, b"body", queue) for queue in QUEUES]
        descriptors = open_descriptors()
        begun = 0

        def fail_second(*asked: Any) -> Seal:
            nonlocal begun
            begun += 1
            if begun == 2:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return begin_long_lease(*asked)

        monkeypatch.setattr("mq.store.receiving.usual.begin_long_lease", fail_second)

        outcomes = await ask(store, *QUEUES)

        assert [type(each) for each in outcomes] == [StoreUnavailable] * 3
        assert names_in(root / "delay") == []
        assert open_descriptors() == descriptors
        assert ids_of(await ask(store, *QUEUES)) == ids


async def test_a_lease_that_the_barrier_outlasted_is_not_answered(disk: Path) -> None:
    files = WatchedFiles()
    async with store_of_three(disk, files, visibility_seconds=LONG_SECONDS) as store:
        ids = [await publish(store, b"body", queue) for queue in QUEUES]
        ahead_ns = 0

        def step(*_: object) -> None:
            nonlocal ahead_ns
            ahead_ns = int(2 * LONG_SECONDS) * SECOND_NS

        store._work.clock_ns = lambda: time.time_ns() + ahead_ns
        files.before |= dict.fromkeys(SYNCS, step)

        outcomes = [each for each in await ask(store, *QUEUES) if isinstance(each, Received)]

        assert ids_of(outcomes) == ids
        assert {each.receive_count for each in outcomes} == {1}
        assert min(each.visible_ns for each in outcomes) > store._work.clock_ns()
