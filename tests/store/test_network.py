"""A store on a file system that other hosts work on too: replies are lost, names are cached."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from mq.errors import IdTaken, LeaseMismatch, MessageNotFound, StoreUnavailable
from mq.names import MessageId
from mq.spool.network_files import STALE_NS, NetworkFiles
from tests.support.faults import LossyFiles, PlainFiles, looks_of
from tests.support.messages import SECOND_NS, names_in, seal_of, stamp, write_message
from tests.support.redelivery import redeliver
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

BODIES = [b"", b"small", os.urandom(200_000)]


@pytest.fixture(params=["flags", "no flags", "replies are lost", "no flags, replies are lost"])
def files(request: pytest.FixtureRequest, root: Path) -> LossyFiles:
    made = LossyFiles(root, is_plain="no flags" in request.param)
    made.loses = False
    made.loses_later = "lost" in request.param
    return made


async def test_messages_are_published_received_and_removed(root: Path, files: LossyFiles) -> None:
    async with store_on(root, files) as store:
        with files.losing():
            published = [await publish(store, body) for body in BODIES]
        for message_id, body in zip(published, BODIES, strict=True):
            received = await receive(store)
            assert (received.message_id, await body_of(store, received)) == (message_id, body)
            with files.losing():
                await store.remove(ORDERS, message_id, frozenset({received.lease}))

        assert await drain(store) == []
    assert names_in(root / "remove") == [f"orders:{message_id}" for message_id in published]
    assert os.listdir(root / "new") == names_in(root / "delay") == []


async def test_removed_message_is_looked_for_elsewhere_if_it_has_another_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version that moved by link and unlink may have left one. Each look is a request."""
    files = LossyFiles(root, is_plain=True)
    async with store_on(root, files) as store:
        files.loses = False
        ids = [await publish(store, b"body") for _ in range(2)]
        leases = [(await receive(store)).lease for _ in ids]
        os.link(root / "delay" / f"orders:{ids[1]}", root / "queues/orders" / ids[1])
        looks = looks_of(files, monkeypatch)

        await store.remove(ORDERS, ids[0], frozenset({leases[0]}))
        asked_for_one = looks.count(f"orders:{ids[0]}") + looks.count(ids[0])
        await store.remove(ORDERS, ids[1], frozenset({leases[1]}))

    assert asked_for_one < 6
    assert os.listdir(root / "queues/orders") == os.listdir(root / "delay") == []


async def test_received_message_whose_reply_was_lost_is_due_at_once(
    root: Path, files: LossyFiles
) -> None:
    """Another host may have received it: the server cannot tell, and gives it to nobody."""
    async with store_on(root, files) as store:
        message_id = await publish(store, b"body")
        if files.loses_later:
            with files.losing():
                assert await store.receive(ORDERS, 1000) is None
            redeliver(root, seconds_later=STALE_NS / SECOND_NS + 1)

        assert (await receive(store)).message_id == message_id


async def test_lease_that_ran_out_brings_the_message_back(root: Path, files: LossyFiles) -> None:
    async with store_on(root, files) as store:
        message_id = await publish(store, b"body")
        first = await receive(store)

        redeliver(root)
        second = await receive(store)

        assert second.message_id == first.message_id == message_id
        assert second.lease != first.lease
        with pytest.raises(LeaseMismatch):
            await store.remove(ORDERS, message_id, frozenset({first.lease}))
        await store.remove(ORDERS, message_id, frozenset({second.lease}))


async def test_without_attributes_a_lease_is_a_stamp_and_nothing_else(
    root: Path, files: LossyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS has them from 4.2 on."""
    for name in ("attribute", "set_attribute"):
        monkeypatch.setattr(LossyFiles, name, getattr(PlainFiles, name))
    async with store_on(root, files) as store:
        message_id = await publish(store, b"body")
        await receive(store)

        redeliver(root)
        received = await receive(store)

        assert (received.message_id, received.receive_count) == (message_id, None)
        await store.remove(ORDERS, message_id, frozenset({received.lease}))


async def test_mover_waits_until_no_other_host_can_have_prolonged_the_lease(root: Path) -> None:
    async with store_on(root, NetworkFiles(root)) as store:
        await publish(store, b"body")
        await receive(store, seconds=1000)

        redeliver(root, 1000 + STALE_NS / SECOND_NS / 2)
        assert names_in(root / "queues/orders") == []
        redeliver(root, 1000 + STALE_NS / SECOND_NS * 2)
        assert len(names_in(root / "queues/orders")) == 1


async def test_release_and_delay_move_the_message(root: Path, files: LossyFiles) -> None:
    async with store_on(root, files) as store:
        published = [await publish(store, body) for body in (b"1", b"2")]
        received = await receive(store)
        with files.losing():
            await store.put_back(received)
            delayed = await publish_as(store, b"later", delay_seconds=1000)

        assert await drain(store) == published
    assert f"orders:{delayed.message_id}" in names_in(root / "delay")


async def test_own_ids_and_batches_are_published_once(root: Path, files: LossyFiles) -> None:
    async with store_on(root, files) as store:
        own = MessageId("own")
        with files.losing():
            assert not (await publish_as(store, b"body", message_id=own)).is_duplicate
            assert (await publish_as(store, b"body", message_id=own)).is_duplicate
            with pytest.raises(IdTaken):
                await publish_as(store, b"ydob", message_id=own)
            entries = batch_of(draft_of(b"body", own), *[draft_of(b"x")] * 5)
            published = await store.publish_batch(ORDERS, entries)

        assert [each.is_duplicate for each in published] == [True, *[False] * 5]
    assert len(names_in(root / "queues" / "orders")) == 6
    assert os.listdir(root / "new") == []


@pytest.mark.parametrize("others", [0, 5])
async def test_known_message_of_a_batch_is_synced_as_another_host_may_have_brought_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    files = NetworkFiles(root)
    async with store_on(root, files) as store:
        own, folder = MessageId("own"), root / "queues" / "orders"
        message = write_message(folder / own, b"body", seal=seal_of(b"body"))
        inodes = {message.stat().st_ino, folder.stat().st_ino}
        synced: list[int] = []
        sync = files.sync

        def note(fd: int) -> None:
            synced.append(os.fstat(fd).st_ino)
            sync(fd)

        monkeypatch.setattr(files, "sync", note)
        entries = batch_of(draft_of(b"body", own), *[draft_of(b"x")] * others)
        published = await store.publish_batch(ORDERS, entries)

        assert published[0].is_duplicate
        assert inodes <= {*synced}


async def test_queue_is_deleted_with_all_its_messages(root: Path, files: LossyFiles) -> None:
    async with store_on(root, files) as store:
        message_ids = [await publish(store, body) for body in (b"1", b"2")]
        await receive(store)

        with files.losing():
            await store.delete_queue(ORDERS)
        await store.create_queue(ORDERS)

        assert await drain(store) == []
        for message_id in message_ids:
            with pytest.raises(MessageNotFound):
                await store.remove(ORDERS, message_id)
    assert names_in(root / "delay") == []


class BeforeTheMove(NetworkFiles):
    """Another host does something just before a move."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.happens: Callable[[], object] | None = None

    def rename_once(self, source_fd: int, source: str, target_fd: int, target: str) -> None:
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        super().rename_once(source_fd, source, target_fd, target)


@pytest.mark.parametrize("is_plain", [False, True])
async def test_message_that_another_host_received_keeps_its_lease_and_stamp(
    root: Path, is_plain: bool
) -> None:
    """This host opened it by a name that it had cached."""
    files = BeforeTheMove(root)
    files.renames_without_replacing = not is_plain
    async with store_on(root, files) as store:
        message_id = await publish(store, b"body")
        ready, leased = root / "queues/orders" / message_id, root / "delay" / f"orders:{message_id}"

        def receive_elsewhere() -> None:
            ready.rename(leased)
            os.setxattr(leased, "user.mq.test", b"1")
            stamp(leased, due_in_seconds=1000)

        files.happens = receive_elsewhere
        seal = os.getxattr(ready, "user.mq")

        assert await store.receive(ORDERS, 1) is None

        assert os.getxattr(leased, "user.mq") == seal
        assert leased.stat().st_mtime_ns > time.time_ns() + 900 * SECOND_NS


async def test_message_that_another_host_removed_does_not_come_back(root: Path) -> None:
    files = BeforeTheMove(root)
    files.renames_without_replacing = False
    async with store_on(root, files) as store:
        message_id = await publish(store, b"body")
        ready, removed = root / "queues/orders" / message_id, root / f"remove/orders:{message_id}"
        files.happens = lambda: ready.rename(removed)

        assert await store.receive(ORDERS, 1) is None

    assert names_in(root / "delay") == []
    assert removed.stat().st_nlink == 1


async def test_failed_seal_after_the_move_leaves_the_message_due(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = NetworkFiles(root)
    async with store_on(root, files) as store:
        message_id = await publish(store, b"body")

        def fail(fd: int, name: str, value: bytes) -> None:
            raise OSError(errno.EIO, "no")

        with monkeypatch.context() as broken:
            broken.setattr(files, "set_attribute", fail)
            with pytest.raises(Exception, match="no"):
                await store.receive(ORDERS, 1000)
        redeliver(root, seconds_later=STALE_NS / SECOND_NS + 1)

        assert (await receive(store)).message_id == message_id


class FullFiles(NetworkFiles):
    """The next sync of a file in `full` fails, and no other does: the kernel reports an error once
    to a descriptor."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.full: set[int] = set()

    def sync(self, fd: int) -> None:
        inode = os.fstat(fd).st_ino
        if inode in self.full:
            self.full.remove(inode)
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        super().sync(fd)


async def test_upload_whose_sync_fails_beside_a_batch_is_refused(root: Path) -> None:
    files = FullFiles(root)
    async with store_on(root, files) as store, store.open_upload() as upload:
        await upload.write(BODIES[-1])
        files.full.add(os.fstat(upload._fd).st_ino)
        with suppress(StoreUnavailable):
            await store.publish_batch(ORDERS, batch_of(*[draft_of(b"body", MessageId("own"))] * 2))

        with pytest.raises(StoreUnavailable, match="quota"):
            await upload.finish(b"", None)
