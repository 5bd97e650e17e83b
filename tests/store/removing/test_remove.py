"""Removals of one request, under one barrier."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mq.errors import MessageNotFound, StoreUnavailable
from mq.names import MessageId
from tests.support.faults import OldFiles, WatchedFiles
from tests.support.messages import names_in
from tests.support.stores import ORDERS, draft_of, publish, publish_as, receive, store_on


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


@pytest.mark.parametrize("is_leased", [False, True], ids=["ready", "leased"])
async def test_a_message_is_not_called_gone_because_the_folder_for_removed_ones_is(
    root: Path, is_leased: bool
) -> None:
    """A person made room with `rm -r remove`. A client that is told 404 does not try again."""
    async with store_on(root) as store:
        message_id = (await publish_as(store, b"body")).message_id
        lease = (await receive(store)).lease if is_leased else None
        shutil.rmtree(root / "remove")

        for leases in (None, frozenset({lease})) if lease else (None,):
            with pytest.raises(StoreUnavailable, match="remove is not the folder"):
                await store.remove(ORDERS, message_id, leases)

            [error] = await store.remove_many(ORDERS, [message_id], leases)
            assert isinstance(error, StoreUnavailable)


async def test_a_queue_is_not_called_gone_because_the_folder_for_removed_ones_is(
    root: Path,
) -> None:
    async with store_on(root) as store:
        shutil.rmtree(root / "remove")

        for change in (store.delete_queue(ORDERS), store.purge(ORDERS)):
            with pytest.raises(StoreUnavailable, match=r"remove|changes all the time"):
                await change


async def test_several_with_two_names_are_removed_with_both_and_all_of_it_is_synced(
    disk: Path,
) -> None:
    """Where a move is a link and an unlink, a crash in between leaves both names."""
    files = OldFiles()
    async with store_on(disk, files) as store:
        ids = [await publish(store, b"body") for _ in range(2)]
        for each in ids:
            await receive(store)
            os.link(disk / f"delay/{ORDERS}:{each}", disk / "queues" / ORDERS / each)
        before = files.calls["sync_file_system"]

        assert await store.remove_many(ORDERS, ids) == [None] * 2

        assert names_in(disk / "delay") == names_in(disk / "queues" / ORDERS) == []
        assert files.calls["sync_file_system"] == before + 1
