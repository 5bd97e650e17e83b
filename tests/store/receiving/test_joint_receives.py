"""Receives of one turn of the event loop: one operation takes for all, each request gets its own
message, and what is unusual about one costs no other."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.commit.operation import Submitted
from mq.config import SMALL_BODY_BYTES
from mq.disk.files import Files
from mq.errors import QueueNotFound, StoreUnavailable
from mq.names import MessageId, QueueName
from mq.store.joint import MAX_TOGETHER
from mq.store.receiving.lease import check_large
from mq.store.receiving.received_message import Received
from mq.store.store import Store
from tests.support.descriptors import open_descriptors
from tests.support.faults import SYNCS, Gate, WatchedFiles
from tests.support.messages import names_in, new_id, write_message
from tests.support.stores import (
    LONG_SECONDS,
    ORDERS,
    body_of,
    drain,
    eventually,
    publish,
    store_on,
)
from tests.support.submits import name_of, note_operations, refuse_at_once, refuse_before_its_round

Outcome = Received | BaseException | None


def submit(store: Store, requests: int, queue: QueueName = ORDERS) -> list[asyncio.Future[Outcome]]:
    """Send several requests in one turn of the event loop. Each has a future, in order."""
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[Outcome]] = [loop.create_future() for _ in range(requests)]

    def telling(future: asyncio.Future[Outcome]) -> Callable[..., None]:
        return lambda taken, error: future.set_result(error or (taken[0] if taken else None))

    for future in futures:
        store.submit_receive(queue, telling(future))
    return futures


async def ask(store: Store, requests: int, queue: QueueName = ORDERS) -> list[Outcome]:
    async with asyncio.timeout(20):
        return await asyncio.gather(*submit(store, requests, queue))


def ids_of(outcomes: list[Outcome]) -> list[MessageId | None]:
    return [each.message_id if isinstance(each, Received) else None for each in outcomes]


@pytest.fixture
def receives(monkeypatch: pytest.MonkeyPatch) -> list[Submitted]:
    """The operations that take messages for requests."""
    return note_operations(monkeypatch, "lease_some", "lease_each")


async def test_each_gets_its_own_message_in_the_order_of_publication(
    root: Path, receives: list[Submitted]
) -> None:
    async with store_on(root) as store:
        ids = [await publish(store, b"%d" % number) for number in range(10)]
        outcomes = await ask(store, 8)

        assert ids_of(outcomes) == ids[:8]
        assert [each.body for each in outcomes if isinstance(each, Received)] == [
            b"%d" % number for number in range(8)
        ]
        assert len({each.lease for each in outcomes if isinstance(each, Received)}) == 8
        assert len(receives) == 1
        assert len(names_in(root / "delay")) == 8


async def test_without_messages_for_all_the_last_ones_get_none(root: Path) -> None:
    async with store_on(root) as store:
        ids = [await publish(store, b"body") for _ in range(3)]

        outcomes = await ask(store, 5)

        assert ids_of(outcomes) == [*ids, None, None]
        assert outcomes[3:] == [None, None]
        assert await ask(store, 2) == [None, None]


async def test_many_requests_are_several_operations(root: Path, receives: list[Submitted]) -> None:
    async with store_on(root) as store:
        ids = [await publish(store, b"body") for _ in range(MAX_TOGETHER + 5)]
        assert ids_of(await ask(store, MAX_TOGETHER + 5)) == ids
        assert len(receives) == 2


async def test_beside_other_servers_they_are_one_operation_too(
    disk: Path, receives: list[Submitted]
) -> None:
    """The round that waits for its clients sees those whose requests share an operation."""
    async with store_on(disk, peers=1) as store:
        ids = [await publish(store, b"body") for _ in range(4)]
        assert set(ids_of(await ask(store, 4))) == set(ids)
        assert [each.requests for each in receives] == [4]


async def test_a_queue_that_is_missing_costs_no_other(root: Path) -> None:
    async with store_on(root) as store:
        message_id = await publish(store, b"body")

        missing, found = await asyncio.gather(ask(store, 2, QueueName("missing")), ask(store, 1))

        assert ids_of(found) == [message_id]
        assert [type(each) for each in missing] == [QueueNotFound, QueueNotFound]


async def test_a_failed_barrier_fails_all(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        for _ in range(3):
            await publish(store, b"body")
        files.fail(*SYNCS)

        outcomes = await ask(store, 3)

        assert [type(each) for each in outcomes] == [StoreUnavailable] * 3


async def test_a_request_that_cannot_be_answered_keeps_no_other(root: Path) -> None:
    async with store_on(root) as store:
        for _ in range(3):
            await publish(store, b"body")

        def fail(result: object, error: BaseException | None) -> None:
            raise ValueError("a header that cannot be sent")

        before = submit(store, 1)
        store.submit_receive(ORDERS, fail)
        after = submit(store, 1)

        async with asyncio.timeout(20):
            assert None not in await asyncio.gather(*before, *after)
        assert len(names_in(root / "delay")) == 3


async def test_a_client_that_waits_gets_the_message_that_it_was_left(root: Path) -> None:
    async with store_on(root) as store:
        waiting = asyncio.create_task(store.receive(ORDERS, LONG_SECONDS, 60))
        async with asyncio.timeout(20):
            while not store._receives.waiting.count(ORDERS):
                await asyncio.sleep(0.001)
        published = [asyncio.ensure_future(publish(store, b"body")) for _ in range(2)]

        outcomes = await ask(store, 3)
        ids = {await each for each in published}
        received = await waiting

        assert received is not None
        others = set(ids_of(outcomes)) | set(await drain(store))
        assert (others - {None}) | {received.message_id} == ids
        assert received.message_id not in others


async def test_a_large_body_is_checked_while_others_get_theirs(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = b"x" * (SMALL_BODY_BYTES + 1)
    gate = Gate()

    def wait_and_check(files: Files, taken: list[Received]) -> list[Received | None]:
        gate.wait()
        return check_large(files, taken)

    async with store_on(root) as store:
        ids = [await publish(store, body) for body in (large, b"small")]
        monkeypatch.setattr("mq.store.receiving.receive.check_large", wait_and_check)
        of_large, of_small = submit(store, 2)

        await gate.reached()
        async with asyncio.timeout(20):
            second = await of_small
            assert not of_large.done()
            gate.open()
            first = await of_large
        assert ids_of([first, second]) == ids
        assert isinstance(first, Received)
        assert await body_of(store, first) == large


async def test_in_place_of_a_damaged_large_message_comes_the_next(root: Path) -> None:
    async with store_on(root) as store:
        large = [await publish(store, b"x" * (SMALL_BODY_BYTES + 1)) for _ in range(2)]
        small = [await publish(store, b"small") for _ in range(2)]
        (root / "queues" / ORDERS / large[0]).write_bytes(b"y" * (SMALL_BODY_BYTES + 1))

        outcomes = await ask(store, 3)

        assert ids_of(outcomes) == [small[1], large[1], small[0]]
        assert names_in(root / "corrupt") == [f"{ORDERS}:{large[0]}"]
        assert isinstance(outcomes[1], Received)
        outcomes[1].close(store._work.files)


@pytest.mark.parametrize("refuse", [refuse_at_once, refuse_before_its_round])
async def test_a_large_message_whose_check_is_refused_is_given_back(
    root: Path, monkeypatch: pytest.MonkeyPatch, refuse: Callable[[Submitted], None]
) -> None:
    """It would be leased to nobody, and its file would stay open."""
    async with store_on(root) as store:
        message_id = await publish(store, b"x" * (SMALL_BODY_BYTES + 1))
        committer = store._receives._joint._committer
        submit = committer.submit

        def refuse_checks(submitted: Submitted) -> None:
            (refuse if name_of(submitted) == "check" else submit)(submitted)

        monkeypatch.setattr(committer, "submit", refuse_checks)
        open_before = open_descriptors()

        (outcome,) = await ask(store, 1)

        async def is_back() -> bool:
            is_closed = open_descriptors() == open_before
            return is_closed and names_in(root / "queues" / ORDERS) == [message_id]

        assert isinstance(outcome, StoreUnavailable)
        await eventually(is_back)


async def test_an_error_behind_the_first_messages_costs_nobody_a_message(root: Path) -> None:
    """The requests that got none try again, and each of them gets the next."""
    files = WatchedFiles()
    async with store_on(root, files) as store:
        ids = [await publish(store, b"body") for _ in range(4)]
        opened = 0

        def fail_second(*_: object) -> None:
            nonlocal opened
            opened += 1
            if opened == 2:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        files.before["open_message"] = fail_second

        outcomes = await ask(store, 4)

        assert set(ids_of(outcomes)) == set(ids)


async def test_a_message_that_another_process_holds_is_passed_over(root: Path) -> None:
    async with store_on(root) as store:
        ids = [await publish(store, b"body") for _ in range(3)]
        files = Files()
        held = os.open(root / "queues" / ORDERS / ids[1], os.O_RDONLY)
        assert files.lock(held)

        outcomes = await ask(store, 3)

        assert ids_of(outcomes) == [ids[0], ids[2], None]
        os.close(held)
        assert ids_of(await ask(store, 2)) == [ids[1], None]


async def test_requests_that_the_index_has_no_message_for_have_the_queue_listed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where the system tells of no events, the index does not know what others deliver.
    async with store_on(root) as store:
        assert await ask(store, 1) == [None]
        monkeypatch.setattr(store._work.ready, "drain", lambda: None)
        theirs = [new_id() for _ in range(2)]
        for each in theirs:
            write_message(root / "queues" / ORDERS / each, b"theirs")
        own = await publish(store, b"own")
        index = store._work.ready.get(ORDERS)
        assert index is not None
        index.next_listing = 0.0

        outcomes = await ask(store, 4)

        assert set(ids_of(outcomes)) == {own, *theirs, None}
