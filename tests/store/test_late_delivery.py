"""A message that is durable but could not be delivered at once."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from pathlib import Path

import pytest

from mq.errors import StoreUnavailable
from mq.names import MessageId
from tests.support.faults import WatchedFiles
from tests.support.stores import ORDERS, batch_of, draft_of, eventually, publish, store_on

OWN = MessageId("order-4711")


@pytest.mark.parametrize("size", [100, 200_000])
async def test_message_that_could_not_be_delivered_waits_for_no_later_sweep(
    disk: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """A sweep that came while the publisher still held the lock would pass the message over."""
    monkeypatch.setattr("mq.store.maintenance.SWEEP_SECONDS", 1_000)
    files = WatchedFiles()

    def let_the_sweep_come(_: int) -> None:
        if threading.current_thread().name == "committer":
            looked, deadline = files.calls["lock"], time.monotonic() + 0.5
            while files.calls["lock"] == looked and time.monotonic() < deadline:
                time.sleep(0.001)

    def fail_to_deliver(*_: object) -> None:
        del files.before["rename"]
        files.before["close"] = let_the_sweep_come
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with store_on(disk, files) as store:
        files.before["rename"] = fail_to_deliver
        message_id = await publish(store, bytes(size))

        async def is_delivered() -> bool:
            return (disk / "queues" / "orders" / message_id).exists()

        await eventually(is_delivered)


@pytest.mark.parametrize("is_batch", [False, True])
async def test_message_that_could_not_be_delivered_is_not_missing(
    root: Path, monkeypatch: pytest.MonkeyPatch, is_batch: bool
) -> None:
    """To ask for it by its id takes a while, and to remove it does not."""
    monkeypatch.setattr("mq.store.opening.sweep_forever", lambda *_: asyncio.sleep(1_000))
    monkeypatch.setattr("mq.store.patience.BUSY_WAIT_SECONDS", 0.01)
    files = WatchedFiles()

    def fail_to_deliver(_source_fd: int, source: str, *_: object) -> None:
        if source.endswith(OWN):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    async with store_on(root, files) as store:
        files.before["rename"] = fail_to_deliver
        draft = draft_of(b"body", OWN)
        published = await (
            store.publish_batch(ORDERS, batch_of(draft, draft_of(b"another")))
            if is_batch
            else store.publish(ORDERS, draft)
        )
        del files.before["rename"]
        assert published

        for asked in (store.take(ORDERS, OWN, 30), store.release_by_id(ORDERS, OWN)):
            with pytest.raises(StoreUnavailable, match="on its way"):
                await asked
        await store.remove(ORDERS, OWN)
        assert [each.parent.name for each in root.rglob(f"*{OWN}")] == ["remove"]
