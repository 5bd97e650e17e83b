"""What a purge cannot remove, or might not, it does not call removed."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from mq.errors import StoreUnavailable
from mq.spool.queue import purging
from mq.store.store import Store
from tests.support.faults import WatchedFiles
from tests.support.messages import seal_of, write_message
from tests.support.stores import ORDERS, drain, publish, store_on

BODY = b"body"


@pytest.mark.parametrize("path", ["new/orders:5", f"new/.orders:{'0' * 36}/orders:5"])
async def test_a_message_that_does_not_come_to_its_queue_is_not_purged(
    root: Path, path: str
) -> None:
    """It was published, and would come to the queue behind the purge."""
    files = WatchedFiles()
    async with store_on(root, files) as store:
        await store.create_queue(ORDERS)
        (root / path).parent.mkdir(exist_ok=True)
        write_message(root / path, BODY, seal=seal_of(BODY))
        files.fail("sync" if path.count("/") == 1 else "rename")

        with pytest.raises(StoreUnavailable, match="new"):
            await store.purge(ORDERS)

        assert await store.purge(ORDERS) == 1
        assert await drain(store) == []


async def test_a_file_in_the_place_of_purged_messages_is_named(store: Store, root: Path) -> None:
    message = await publish(store, BODY)
    (root / "remove/orders:.purged").write_bytes(b"")

    with pytest.raises(StoreUnavailable, match=r"remove/orders:\.purged"):
        await store.purge(ORDERS)

    assert await drain(store) == [message]


@pytest.mark.parametrize("long_queue", [2, 1000])
async def test_what_stays_because_remove_is_emptied_meanwhile_is_told(
    root: Path, monkeypatch: pytest.MonkeyPatch, long_queue: int
) -> None:
    """A person makes room. A long queue is exchanged with a folder there."""
    monkeypatch.setattr(purging, "LONG_QUEUE", long_queue)
    files = WatchedFiles()

    def empty(*_: object) -> None:
        shutil.rmtree(root / "remove/orders:.purged", ignore_errors=True)

    async with store_on(root, files) as store:
        messages = [await publish(store, BODY) for _ in range(3)]
        files.before |= {"exchange": empty, "rename": empty}

        with pytest.raises(StoreUnavailable, match="was removed while a purge was filling"):
            await store.purge(ORDERS)

        files.before.clear()
        assert await drain(store) == messages


async def test_a_disk_without_room_for_a_folder_is_reported_with_the_way_out(root: Path) -> None:
    files = WatchedFiles()
    async with store_on(root, files) as store:
        await store.create_queue(ORDERS)
        message = await publish(store, BODY)
        files.fail("make_folder", code=errno.ENOSPC)

        with pytest.raises(StoreUnavailable, match=r"takes two folders: No space.* the reaper has"):
            await store.purge(ORDERS)

        assert await drain(store) == [message]
