"""A message that is removed in the step that publishes a batch, in the store."""

from __future__ import annotations

import asyncio
import errno
import os
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeGuard

import pytest

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation
from mq.ctl.ways.by_root import RootAccess
from mq.disk.calls import run_one
from mq.disk.file_work import FileCalls
from mq.errors import MessageNotFound, QueueNotFound, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.locks import lock_names
from mq.spool.message.held import Held, hold
from mq.spool.queue.queues import begin_deletion, finish_deletion
from mq.store.publishing.copies import publish_one
from mq.store.publishing.publish import Published
from mq.store.receiving.received_message import Received
from mq.store.removing.remove_under_lease import UnderLease
from mq.store.store import Store
from tests.support.descriptors import open_descriptors
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.messages import names_in, write_message, write_set
from tests.support.stores import ORDERS, batch_of, draft_of, drain, eventually, publish, store_on

BILLS = QueueName("bills")


def removing(received: Received) -> UnderLease:
    return received.queue, received.message_id, frozenset({received.lease})


async def received_of(store: Store, message_id: str | None = None) -> Received:
    """A message of `orders`, under a lease; there is a queue `bills` too."""
    await store.create_queue(BILLS)
    if message_id is None:
        await publish(store, b"order")
    else:
        await store.publish(ORDERS, draft_of(b"order", MessageId(message_id)))
    received = await store.receive(ORDERS, 60)
    assert received is not None
    return received


async def test_both_are_counted_and_nothing_stays_open(disk: Path) -> None:
    async with store_on(disk) as store:
        received = await received_of(store)
        await publish(store, b"the queue is open from here on", BILLS)
        before = open_descriptors()

        await store.publish(BILLS, draft_of(b"bill"), (), removing(received))

        counts = store._work.counts
        assert (counts.of(BILLS).published, counts.of(ORDERS).removed) == (2, 1)
        assert not store._work.undelivered
        assert open_descriptors() == before
    assert names_in(disk / "new") == []
    assert names_in(disk / "remove") == [f"orders:{received.message_id}"]


async def test_no_folder_is_listed_for_it(disk: Path) -> None:
    """Nobody else has been at its set, nor is there an id to look for."""
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        received = [await received_of(store), await received_of(store)]
        write_set(disk / "new" / ".-:0123.open")  # Another one is under way.
        opened = []
        for each in received:
            before = files.calls["open_folder"]
            await store.publish(BILLS, draft_of(b"bill"), (), removing(each))
            opened.append(files.calls["open_folder"] - before)

    assert opened[-1] == 1, "that for the lock of its set"


async def test_after_a_failed_sync_of_its_data_neither_has_happened(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        received = await received_of(store)
        files.fail(*SYNCS)

        with pytest.raises(StoreUnavailable):
            await store.publish(BILLS, draft_of(b"bill"), (), removing(received))

        files.before.clear()
        await eventually(lambda: _has(store, BILLS, 0))
        await store.remove(ORDERS, received.message_id, frozenset({received.lease}))


async def test_after_a_failed_sync_of_its_seal_both_have(disk: Path) -> None:
    """The outcome is unknown to the client. What the sweep of the reopened store finds is whole."""
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        received = await received_of(store)
        # Only the seal is synced after a rename.
        files.before["rename"] = lambda *_: files.fail(*SYNCS)

        with pytest.raises(StoreUnavailable, match="unknown"):
            await store.publish(BILLS, draft_of(b"bill"), (), removing(received))

        files.before.clear()
        await eventually(lambda: _has(store, BILLS, 1))
        with pytest.raises(MessageNotFound):
            await store.peek_at(ORDERS, received.message_id)
    assert names_in(disk / "new") == []


async def _has(store: Store, queue: QueueName, ready: int) -> bool:
    try:
        return (await store.describe_queue(queue)).ready == ready
    except StoreUnavailable:  # It is being reopened.
        return False


async def test_it_waits_for_who_holds_the_message(disk: Path) -> None:
    async with store_on(disk) as store:
        received = await received_of(store)
        spool = store._work.spool
        held = hold(spool.files, spool.fd(Folder.DELAY), f"orders:{received.message_id}")
        assert isinstance(held, Held)
        with held, pytest.raises(StoreUnavailable, match=received.message_id):
            await store.publish(BILLS, draft_of(b"bill"), (), removing(received))
        assert await drain(store, BILLS) == []
        assert names_in(disk / "new") == []

        await store.publish(BILLS, draft_of(b"bill"), (), removing(received))


@pytest.mark.parametrize("messages", [1, 2])
async def test_it_waits_for_who_holds_the_id_of_the_message(disk: Path, messages: int) -> None:
    async with store_on(disk) as store:
        received = await received_of(store)
        lock = lock_names(store._work.spool, [f"orders:{received.message_id}"])
        assert lock is not None
        entries = batch_of(*[draft_of(b"bill") for _ in range(messages)])
        publishing = asyncio.create_task(
            store.publish_batch(BILLS, entries, (), removing(received))
        )
        await asyncio.wait([publishing], timeout=0.1)

        assert not publishing.done()
        assert names_in(disk / "delay") == [f"orders:{received.message_id}"]

        os.close(lock)
        published = await publishing
        assert len(published) == messages
        assert await drain(store, BILLS) == [each.message_id for each in published]
    assert names_in(disk / "remove") == [f"orders:{received.message_id}"]


async def test_of_two_who_hand_over_a_message_at_once_one_does(disk: Path) -> None:
    async with store_on(disk) as store:
        received = await received_of(store)
        outcomes = await asyncio.gather(
            *(store.publish(BILLS, draft_of(b"bill"), (), removing(received)) for _ in range(9)),
            return_exceptions=True,
        )

        [published] = [each for each in outcomes if isinstance(each, Published)]
        assert sum(isinstance(each, MessageNotFound) for each in outcomes) == 8
        assert await drain(store, BILLS) == [published.message_id]


async def test_who_publishes_the_message_again_is_told_that_it_was_published(disk: Path) -> None:
    """Its producer finds it wherever it is on its way: here before the sweep that removes it."""
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        received = await received_of(store, "own")
        # The first rename takes the message; those after it fail.
        files.before["rename"] = lambda *_: files.fail("rename", code=errno.EIO, times=100)
        with pytest.raises(StoreUnavailable):
            await store.publish(BILLS, draft_of(b"bill"), (), removing(received))
        [left] = [each for each in os.listdir(disk / "new") if each.startswith(".-:")]
        assert ".orders:own" in os.listdir(disk / "new" / left)

        files.before.clear()
        again = await store.publish(ORDERS, draft_of(b"order", MessageId("own")))

        assert again.is_duplicate
        assert await drain(store, ORDERS) == []


async def test_what_it_publishes_is_told_apart_from_a_new_message_before_it_is_sealed(
    disk: Path,
) -> None:
    """A crash came after it took its message. The sweep would deliver what it publishes as soon as
    the other one was removed."""
    async with store_on(disk) as store:
        left = write_set(disk / "new" / ".-:0123.open", "own")
        write_message(left / ".bills:taken", b"bill", seal=None)

        published = await store.publish(ORDERS, draft_of(b"body", MessageId("own")))

        assert published.is_duplicate


@pytest.mark.parametrize(
    ("has_one_log", "is_of_network"), [(True, False), (False, False), (False, True)]
)
async def test_what_is_synced_and_locked_on_its_way(
    disk: Path, *, has_one_log: bool, is_of_network: bool
) -> None:
    """The folder of the set has a name that only a log, or a sync of all, or its own keeps."""
    async with store_on(disk) as store:
        received = await received_of(store, "own")
    with closing(RootAccess(disk)) as access:
        work = access._runner.work
        work.spool.has_one_log, work.files.is_of_network = has_one_log, is_of_network
        publishing = publish_one(work, BILLS, draft_of(b"bill"), (), removing(received))
        needs: list[object] = []
        answer: object = None
        with suppress(StopIteration):
            while True:
                needs.append(publishing.send(answer))
                # A producer that publishes under its id meanwhile has to wait.
                assert lock_names(work.spool, ["orders:own"]) is None
                answer = run_one(*needs[-1]) if isinstance(needs[-1], FileCalls) else None
        files, folders, is_more, implied, _ = [*filter(_is_unsynced, needs)][-1]

    assert (folders, implied) == (("new",), ("delay",))
    assert is_more is not has_one_log
    assert len(files) == is_of_network


def _is_unsynced(need: object) -> TypeGuard[Unsynced]:
    return isinstance(need, Unsynced)


async def test_a_queue_that_is_made_again_does_not_know_the_id_of_what_was_taken(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion of its queue has looked into `new`, where what is taken comes to, and not yet
    into `delay`."""
    async with store_on(disk) as store:
        received = await received_of(store, "own")
    with closing(RootAccess(disk)) as access, closing(RootAccess(disk)) as other:
        publishing = publish_one(
            access._runner.work, BILLS, draft_of(b"bill"), (), removing(received)
        )
        assert _is_unsynced(publishing.send(None))
        spool = other._spool
        names = spool.names

        def take_after_a_look(folder: Folder) -> list[str]:
            found = names(folder)
            if folder is Folder.NEW:
                with suppress(QueueNotFound):
                    _go_on_to_the_next_sync(publishing)
            return found

        monkeypatch.setattr(spool, "names", take_after_a_look)
        assert begin_deletion(spool, ORDERS)
        finish_deletion(spool, ORDERS)
        with suppress(StopIteration):
            _go_on_to_the_next_sync(publishing)
    async with store_on(disk) as store:
        again = await store.publish(ORDERS, draft_of(b"another", MessageId("own")))

        assert not again.is_duplicate


def _go_on_to_the_next_sync(publishing: Operation[Published]) -> None:
    answer: object = None
    while not _is_unsynced(need := publishing.send(answer)):
        answer = run_one(*need) if isinstance(need, FileCalls) else None


async def test_a_batch_that_was_published_before_still_removes_it(disk: Path) -> None:
    async with store_on(disk) as store:
        received = await received_of(store)
        entries = batch_of(draft_of(b"bill", MessageId("bill")))
        await store.publish_batch(BILLS, entries)

        for _ in range(2):  # Once more, as after a lost answer.
            [published] = await store.publish_batch(BILLS, entries, (), removing(received))
            assert published.is_duplicate

        assert await drain(store, BILLS) == ["bill"]
    assert names_in(disk / "remove") == [f"orders:{received.message_id}"]
