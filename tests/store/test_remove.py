"""Removals of one request, under one barrier."""

from __future__ import annotations

from pathlib import Path

from mq.errors import MessageNotFound, StoreUnavailable
from mq.names import MessageId
from tests.support.faults import WatchedFiles
from tests.support.messages import names_in
from tests.support.stores import ORDERS, draft_of, publish_as, store_on


async def test_many_removals_share_a_sync(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        ids = [(await publish_as(store, b"body")).message_id for _ in range(50)]
        before = files.syncs()

        assert await store.remove_many(ORDERS, ids) == [None] * 50

        assert files.syncs() - before <= 2
    assert len(names_in(disk / "remove")) == 50


async def test_a_failed_sync_fails_them_all_and_each_may_be_tried_again(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store:
        ids = [(await publish_as(store, b"body")).message_id for _ in range(3)]
        files.fail("sync", "sync_file_system")

        try:
            await store.remove_many(ORDERS, ids)
        except StoreUnavailable:
            pass
        else:
            raise AssertionError("the sync failed")
        files.before.clear()

        while True:
            try:
                assert await store.remove_many(ORDERS, ids) == [None] * 3
                break
            except StoreUnavailable:
                continue


async def test_what_is_wrong_with_one_costs_no_other(root: Path) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        published = await store.publish(ORDERS, draft_of(b"body"))
        files.fail("rename")

        ids = [published.message_id, MessageId("none"), published.message_id]
        first, second, third = await store.remove_many(ORDERS, ids)

        assert isinstance(first, StoreUnavailable)
        assert isinstance(second, MessageNotFound)
        assert third is None
