"""Poorer file systems: without RENAME_NOREPLACE, unnamed files or extended attributes."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.errors import IdTaken, LeaseMismatch, MessageNotFound
from mq.names import MessageId
from tests.support.faults import OldFiles, PlainFiles, WatchedFiles
from tests.support.messages import SECOND_NS, names_in, stamp, write_message
from tests.support.redelivery import move_due, redeliver
from tests.support.stores import (
    ORDERS,
    batch_of,
    body_of,
    draft_of,
    drain,
    publish,
    publish_as,
    receive,
    store_on,
)


class OldPlainFiles(OldFiles, PlainFiles):
    """A file system with none of the three."""


KINDS = [WatchedFiles, OldFiles, PlainFiles, OldPlainFiles]
BODIES = [b"", b"small", os.urandom(200_000)]


@pytest.fixture(params=KINDS)
def files(request: pytest.FixtureRequest) -> WatchedFiles:
    made = request.param()
    assert isinstance(made, WatchedFiles)
    return made


async def test_messages_are_published_received_and_removed(root: Path, files: WatchedFiles) -> None:
    async with store_on(root, files) as store:
        published = [await publish(store, body) for body in BODIES]

        for message_id, body in zip(published, BODIES, strict=True):
            received = await receive(store)
            assert received.message_id == message_id
            assert await body_of(store, received) == body
            await store.remove(ORDERS, message_id, frozenset({received.lease}))

        assert await drain(store) == []
    assert names_in(root / "remove") == [f"orders:{message_id}" for message_id in published]
    assert os.listdir(root / "new") == names_in(root / "delay") == []


async def test_lease_that_ran_out_brings_the_message_back(root: Path, files: WatchedFiles) -> None:
    async with store_on(root, files) as store:
        message_id = await publish(store, b"body")
        first = await receive(store)

        redeliver(root, files=Files())
        second = await receive(store)

        assert second.message_id == first.message_id == message_id
        assert second.lease != first.lease
        with pytest.raises(LeaseMismatch):
            await store.remove(ORDERS, message_id, frozenset({first.lease}))
        await store.remove(ORDERS, message_id, frozenset({second.lease}))


async def test_message_that_is_put_back_is_next_again(root: Path, files: WatchedFiles) -> None:
    async with store_on(root, files) as store:
        published = [await publish(store, body) for body in (b"1", b"2")]

        await store.put_back(await receive(store))

        assert await drain(store) == published


async def test_message_with_two_names_is_given_out_once(root: Path) -> None:
    """A crash came between the link and the unlink of a receive, or of a redelivery."""
    async with store_on(root, OldFiles()) as store:
        message_id = await publish(store, b"body")
        os.link(root / "queues/orders" / message_id, root / f"delay/orders:{message_id}")
        assert await drain(store) == [message_id]
        assert names_in(root / "queues/orders") == []

        os.link(root / f"delay/orders:{message_id}", root / "queues/orders" / message_id)
        stamp(root / f"delay/orders:{message_id}", due_in_seconds=-1)
        move_due(root, OldFiles())
        assert names_in(root / "delay") == []
        assert await drain(store) == [message_id]


@pytest.mark.parametrize("is_leased", [False, True])
async def test_message_with_two_names_is_removed_with_both(root: Path, is_leased: bool) -> None:
    async with store_on(root, OldFiles()) as store:
        message_id = await publish(store, b"body")
        received = await receive(store)
        os.link(root / f"delay/orders:{message_id}", root / "queues/orders" / message_id)

        leases = frozenset({received.lease}) if is_leased else None
        await store.remove(ORDERS, message_id, leases)

        assert names_in(root / "delay") == names_in(root / "queues/orders") == []
        assert names_in(root / "remove") == [f"orders:{message_id}"]


async def test_a_removal_under_a_lease_leaves_another_message_that_has_the_id_by_now(
    root: Path, files: WatchedFiles
) -> None:
    async with store_on(root, files) as store:
        message_id = await publish(store, b"body")
        received = await receive(store)
        write_message(root / "queues/orders" / message_id, b"another")

        await store.remove(ORDERS, message_id, frozenset({received.lease}))

        assert names_in(root / "delay") == []
        assert (root / "queues/orders" / message_id).read_bytes() == b"another"


async def test_queue_is_deleted_with_all_its_messages(root: Path, files: WatchedFiles) -> None:
    async with store_on(root, files) as store:
        message_ids = [await publish(store, body) for body in (b"1", b"2")]
        await receive(store)

        await store.delete_queue(ORDERS)
        await store.create_queue(ORDERS)

        assert await drain(store) == []
        for message_id in message_ids[1:]:
            with pytest.raises(MessageNotFound):
                await store.remove(ORDERS, message_id)
    assert names_in(root / "delay") == []


async def test_upload_that_broke_off_leaves_nothing(root: Path, files: WatchedFiles) -> None:
    async with store_on(root, files) as store:
        async with store.open_upload() as upload:
            await upload.write(bytes(600_000))

        assert os.listdir(root / "new") == []


@pytest.mark.parametrize("files", [PlainFiles, OldPlainFiles], indirect=True)
async def test_without_attributes_the_due_stamp_is_the_lease(
    root: Path, files: WatchedFiles
) -> None:
    async with store_on(root, files) as store:
        message_id = await publish(store, b"body")
        received = await receive(store)

        assert received.lease == received.visible_ns > time.time_ns()
        assert (root / "delay" / f"orders:{message_id}").stat().st_mtime_ns == received.lease
        assert (received.receive_count, received.content_type) == (None, None)


@pytest.mark.parametrize("files", [PlainFiles, OldPlainFiles], indirect=True)
@pytest.mark.parametrize("body", BODIES[1:])
async def test_without_attributes_a_body_is_synced_before_it_has_a_name(
    root: Path, files: WatchedFiles, body: bytes
) -> None:
    async with store_on(root, files) as store:
        synced_before_link: list[int] = []
        files.before["link"] = lambda *_: synced_before_link.append(files.calls["sync"])
        files.calls.clear()

        await publish(store, body)

        assert synced_before_link[0] >= 1


async def test_lease_is_rounded_up_to_what_the_file_system_keeps(root: Path) -> None:
    class WholeSecondFiles(WatchedFiles):
        def stamp(self, fd: int, mtime_ns: int) -> None:
            super().stamp(fd, mtime_ns // SECOND_NS * SECOND_NS)

    async with store_on(root, WholeSecondFiles()) as store:
        message_id = await publish(store, b"body")
        before_ns = time.time_ns()
        received = await receive(store, seconds=5)

        stamped_ns = (root / "delay" / f"orders:{message_id}").stat().st_mtime_ns
        assert stamped_ns == received.visible_ns
        assert stamped_ns % SECOND_NS == 0
        assert stamped_ns >= before_ns + 5 * SECOND_NS


async def test_file_system_in_memory_is_never_synced(root: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or not os.access(memory, os.W_OK):
        pytest.skip("no /dev/shm here")
    files = WatchedFiles()
    root = memory / f"mq-test-{os.getpid()}"
    try:
        async with store_on(root, files) as store:
            files.calls.clear()
            for body in BODIES[:2]:
                await publish(store, body)
            received = await receive(store)
            await store.remove(ORDERS, received.message_id, frozenset({received.lease}))

            assert len(await drain(store)) == 1
            assert files.syncs() == 0
    finally:
        shutil.rmtree(root)


async def test_own_ids_delays_and_batches_work_on_all_of_them(
    root: Path, files: WatchedFiles
) -> None:
    async with store_on(root, files) as store:
        own = MessageId("own")
        assert not (await publish_as(store, b"body", message_id=own)).is_duplicate
        assert (await publish_as(store, b"body", message_id=own)).is_duplicate
        with pytest.raises(IdTaken):
            await publish_as(store, b"ydob", message_id=own)
        entries = batch_of(
            draft_of(b"body", own), draft_of(b"later", delay_seconds=1000), *[draft_of(b"x")] * 5
        )

        published = await store.publish_batch(ORDERS, entries)

        assert [each.is_duplicate for each in published] == [True, *[False] * 6]
    assert len(names_in(root / "queues" / "orders")) == 6
    assert names_in(root / "delay") == [f"orders:{published[1].message_id}"]
    assert os.listdir(root / "new") == []
