"""Messages for several queues that come together under ids of their producers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mq.commit.operation import Done
from mq.errors import IdTaken
from mq.names import MessageId, QueueName
from mq.store.publishing.publish import Draft, Published
from mq.store.publishing.twins import lock_ids
from mq.store.store import Store
from tests.support.descriptors import open_descriptors
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in
from tests.support.stores import LONG_SECONDS, ORDERS, draft_of, drain, store_on
from tests.support.submits import Outcome, answered, ids_of

BILLS = QueueName("bills")


def own(message_id: str, body: bytes = b"body") -> Draft:
    return replace(draft_of(body), message_id=MessageId(message_id))


def submitting(store: Store, drafts: Sequence[Draft]) -> list[asyncio.Task[Outcome]]:
    """Publish in one turn of the event loop, each to `orders` and to `bills`."""

    def submit(draft: Draft, done: Done) -> None:
        store.submit_publish(ORDERS, draft, done, (BILLS,))

    return [asyncio.create_task(answered(submit, each)) for each in drafts]


async def ask(store: Store, *drafts: Draft) -> list[Outcome]:
    async with asyncio.timeout(20):
        return [*await asyncio.gather(*submitting(store, drafts), return_exceptions=True)]


def told(outcomes: Sequence[Outcome]) -> list[object]:
    return [getattr(each, "is_duplicate", type(each)) for each in outcomes]


async def test_those_that_are_new_are_one_set(root: Path) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        await store.create_queue(BILLS)
        drafts = [own("z"), draft_of(b"new"), own("a"), own("m")]
        await ask(store, draft_of(b"first"))  # It keeps the folders of the queues open.
        made, before = files.calls["make_folder"], open_descriptors()

        outcomes = await ask(store, *drafts)

        assert files.calls["make_folder"] - made == 1
        assert open_descriptors() == before
        ids = ids_of(outcomes)
        assert (ids[0], *ids[2:]) == ("z", "a", "m")
        for queue in (ORDERS, BILLS):
            received = await store.receive_many(queue, 10, LONG_SECONDS)
            assert [each.message_id for each in received][1:] == ids
        assert names_in(root / "new") == []


async def test_one_that_is_known_costs_no_other(root: Path) -> None:
    """Published before, removed, in one of the queues, and twice in one turn: with the same body
    and with another one."""
    async with store_on(root) as store:
        await store.create_queue(BILLS)
        await ask(store, own("known"), own("gone"))
        await store.publish(BILLS, own("in-bills"))
        for queue in (ORDERS, BILLS):
            await store.remove(queue, MessageId("gone"))

        outcomes = await ask(
            store, own("known"), own("known", b"other"), own("gone"), own("in-bills"), own("new"),
            own("new"), own("new", b"other"), own("last"),
        )  # fmt: skip

        assert told(outcomes) == [True, IdTaken, True, False, False, True, IdTaken, False]
        assert set(await drain(store)) == {"known", "in-bills", "new", "last"}
        assert set(await drain(store, BILLS)) == {"known", "in-bills", "new", "last"}


@pytest.mark.parametrize("queue", [ORDERS, BILLS])
async def test_one_that_another_process_publishes_is_waited_for_alone(
    root: Path, queue: QueueName
) -> None:
    async with store_on(root) as store:
        await store.create_queue(BILLS)
        lock = lock_ids(store._work.spool, queue, [MessageId("busy")])
        assert lock is not None
        busy, *others = submitting(store, [own("busy"), own("one"), own("two")])

        async with asyncio.timeout(20):
            assert told([await each for each in others]) == [False, False]
        assert not busy.done()
        store._work.files.close(lock)
        async with asyncio.timeout(20):
            assert isinstance(await busy, Published)

        assert set(await drain(store)) == {"busy", "one", "two"}
        assert set(await drain(store, BILLS)) == {"busy", "one", "two"}
        assert not store._work.batches_at_work
        assert not store._work.undelivered


async def test_the_copies_of_a_setting_are_one_set_too(root: Path) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        await store.create_queue(BILLS)
        await store.change_settings(ORDERS, {"also": BILLS})
        made = files.calls["make_folder"]

        def submit(draft: Draft, done: Done) -> None:
            store.submit_publish(ORDERS, draft, done)

        drafts = [own(f"{number}") for number in range(4)]
        outcomes = await asyncio.gather(*[answered(submit, each) for each in drafts])

        assert files.calls["make_folder"] - made == 1
        assert told(outcomes) == [False] * 4
        assert await drain(store) == await drain(store, BILLS) == ["0", "1", "2", "3"]
