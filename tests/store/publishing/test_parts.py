"""A batch for several queues, each of which has a part of it."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.errors import IdTaken, QueueNotFound, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.queue.queues import begin_deletion
from mq.spool.sweep import Sweeper
from mq.store.publishing.filling import Batch
from mq.store.publishing.parts import BatchPart
from mq.store.publishing.publish import Draft, Published
from mq.store.publishing.readers import Queues
from mq.store.store import Store
from tests.support.faults import SYNCS, WatchedFiles
from tests.support.stores import (
    ORDERS,
    batch_of,
    draft_of,
    drain,
    publish,
    publish_as,
    store_on,
)

TEAS, CAKES = QueueName("teas"), QueueName("cakes")
ALSO = (TEAS, CAKES)
OWN = MessageId("own")


async def _make_queues(store: Store) -> None:
    for each in ALSO:
        await store.create_queue(each)


async def _send(store: Store, *drafts: Draft, also: Queues = ALSO) -> list[Published]:
    some = drafts or (draft_of(b"tea"), draft_of(b"cake"))
    return await store.publish_batch(ORDERS, batch_of(*some), also)


async def _drain_all(store: Store) -> list[list[MessageId]]:
    return [await drain(store, each) for each in (ORDERS, *ALSO)]


@pytest.mark.parametrize("files", [Files, WatchedFiles])
@pytest.mark.parametrize("number", [1, 2, 100])
async def test_each_queue_gets_all_in_their_order(
    tmp_path: Path, files: type[Files], number: int
) -> None:
    async with store_on(tmp_path, files()) as store:
        await _make_queues(store)
        drafts = [draft_of(b"%d" % each) for each in range(number)]

        ids = [each.message_id for each in await _send(store, *drafts)]

        assert await _drain_all(store) == [ids] * 3
        assert os.listdir(tmp_path / "new") == []


async def test_only_what_all_queues_had_is_a_duplicate(tmp_path: Path) -> None:
    async with store_on(tmp_path) as store:
        await _make_queues(store)
        own = draft_of(b"tea", OWN)
        assert [each.is_duplicate for each in await _send(store, own, own)] == [False, True]
        assert [each.is_duplicate for each in await _send(store, own)] == [True]
        await store.delete_queue(CAKES)
        await store.create_queue(CAKES)

        assert [each.is_duplicate for each in await _send(store, own)] == [False]

        assert await _drain_all(store) == [[OWN]] * 3


async def test_another_message_under_the_id_is_told_with_its_queue(tmp_path: Path) -> None:
    async with store_on(tmp_path) as store:
        await _make_queues(store)
        await publish_as(store, b"coffee", TEAS, OWN)

        with pytest.raises(IdTaken, match=r"^queue teas: line 2: message own"):
            await _send(store, draft_of(b"tea"), draft_of(b"tea", OWN))

        assert await _drain_all(store) == [[], [OWN], []]


async def test_a_part_knows_what_it_adds(tmp_path: Path) -> None:
    async with store_on(tmp_path) as store:
        work = store._work
        entries = batch_of(draft_of(b"tea"), draft_of(b"cake", OWN))
        positions = work.ids.next_positions([None, OWN])

        part = BatchPart(work, ORDERS, list(zip(entries, positions, strict=True)))

        assert (part.added, part.length, part.own_ids) == (0, len(b"teacake"), [OWN])


@pytest.mark.usefixtures("disk")
async def test_a_failed_sync_publishes_to_none(tmp_path: Path) -> None:
    files = WatchedFiles()
    async with store_on(tmp_path, files) as store:
        await _make_queues(store)
        first = await publish(store, b"first")
        files.fail(*SYNCS)

        with pytest.raises(StoreUnavailable):
            await _send(store)

    async with store_on(tmp_path) as store:
        assert await _drain_all(store) == [[first], [], []]


def _fail_delivery(files: WatchedFiles, after: int = 0) -> None:
    """Let the delivery of a sealed batch fail, once `after` of its messages are in their queues."""
    left = after

    def before_rename(_: int, name: str, *__: object) -> None:
        nonlocal left
        if "/" in name:
            left -= 1
            if left < 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    files.before["rename"] = before_rename


@asynccontextmanager
async def _left_in_new(root: Path, after: int) -> AsyncIterator[tuple[Store, MessageId]]:
    """A store whose sweep does not come, with a batch in `new` that is sealed, of one message for
    each of three queues."""
    files = WatchedFiles()
    async with store_on(root, files) as store:
        await _make_queues(store)
        _fail_delivery(files, after)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store._work, "request_sweep", lambda: None)
            [published] = await _send(store, draft_of(b"tea"))
        files.before.clear()
        assert len(os.listdir(root / "new")) == 1
        yield store, published.message_id


@pytest.mark.parametrize("after", [0, 1, 2])
async def test_a_sweep_delivers_what_is_left(tmp_path: Path, after: int) -> None:
    async with _left_in_new(tmp_path, after) as (store, message_id):
        Sweeper(store._work.spool, lambda *left: pytest.fail(str(left))).sweep()

        assert await _drain_all(store) == [[message_id]] * 3
        assert os.listdir(tmp_path / "new") == []


@pytest.mark.parametrize("ended", [ORDERS, *ALSO])
async def test_a_queue_that_is_deleted_takes_its_own_message_along(
    tmp_path: Path, ended: QueueName
) -> None:
    async with _left_in_new(tmp_path, 0) as (store, message_id):
        await store.delete_queue(ended)
        await store.create_queue(ended)
        Sweeper(store._work.spool, lambda *left: pytest.fail(str(left))).sweep()

        expected = [[] if each == ended else [message_id] for each in (ORDERS, *ALSO)]
        assert await _drain_all(store) == expected
        assert os.listdir(tmp_path / "new") == []


async def test_all_queues_that_are_deleted_leave_nothing(tmp_path: Path) -> None:
    async with _left_in_new(tmp_path, 0) as (store, _):
        for each in (ORDERS, *ALSO):
            await store.delete_queue(each)

        assert os.listdir(tmp_path / "new") == []


@pytest.mark.parametrize("ended", [ORDERS, *ALSO])
async def test_a_purge_removes_the_message_of_its_own_queue(
    tmp_path: Path, ended: QueueName
) -> None:
    async with _left_in_new(tmp_path, 0) as (store, message_id):
        assert await store.purge(ended) == 1

        expected = [[] if each == ended else [message_id] for each in (ORDERS, *ALSO)]
        assert await _drain_all(store) == expected


async def test_a_purge_does_not_wait_for_a_batch_for_others(tmp_path: Path) -> None:
    async with _left_in_new(tmp_path, 0) as (store, _):
        other = QueueName("other")
        await store.create_queue(other)
        [batch] = (tmp_path / "new").iterdir()
        lock = store._work.spool.files.open_folder(store._work.spool.fd(Folder.NEW), batch.name)
        assert store._work.spool.files.lock(lock)

        assert await store.purge(other) == 0

        store._work.spool.files.close(lock)


async def test_a_message_that_is_left_is_removed_by_its_id(tmp_path: Path) -> None:
    async with _left_in_new(tmp_path, 0) as (store, message_id):
        await store.remove(TEAS, message_id)
        Sweeper(store._work.spool, lambda *left: pytest.fail(str(left))).sweep()

        assert await _drain_all(store) == [[message_id], [], [message_id]]


async def test_an_own_id_is_found_in_what_is_left(tmp_path: Path) -> None:
    files = WatchedFiles()
    async with store_on(tmp_path, files) as store:
        await _make_queues(store)
        _fail_delivery(files)
        await _send(store, draft_of(b"tea", OWN))
        files.before.clear()

        assert (await publish_as(store, b"tea", CAKES, OWN)).is_duplicate
        with pytest.raises(IdTaken):
            await publish_as(store, b"coffee", TEAS, OWN)


async def test_a_queue_that_is_missing_is_named(tmp_path: Path) -> None:
    async with store_on(tmp_path) as store:
        await store.create_queue(TEAS)

        with pytest.raises(QueueNotFound, match="no queue cakes"):
            await _send(store)

        assert await drain(store) == []
        assert os.listdir(tmp_path / "new") == []


async def test_a_queue_that_is_deleted_just_then_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Batch, "fits_one_call", False)
    files = WatchedFiles()
    async with store_on(tmp_path, files) as store:
        await _make_queues(store)
        is_deleted = False

        def before_open(*_: object) -> None:
            nonlocal is_deleted
            if list((tmp_path / "new").glob(".+:*[!n]")):
                del files.before["open_folder"]
                is_deleted = begin_deletion(store._work.spool, TEAS)

        files.before["open_folder"] = before_open
        await _send(store, draft_of(b"tea", OWN))
        files.before.clear()
        assert is_deleted

        assert [await drain(store, each) for each in (ORDERS, CAKES)] == [[OWN]] * 2
    assert "delivery failed" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
async def test_what_only_has_the_name_of_a_batch_keeps_no_queue(tmp_path: Path, kind: str) -> None:
    """A person put it there, or another program."""
    async with store_on(tmp_path) as store:
        stray = tmp_path / "new" / ".+:stray"
        if kind == "file":
            stray.write_bytes(b"stray")
        elif kind == "link":
            stray.symlink_to(tmp_path)
        else:
            stray.mkdir()
            (stray / "not-a-message").write_bytes(b"stray")
        message_id = await publish(store, b"tea")

        assert await store.purge(ORDERS) == 1
        await store.delete_queue(ORDERS)
        assert await store.create_queue(ORDERS)

        assert await publish(store, b"tea") > message_id
        assert stray.exists()
