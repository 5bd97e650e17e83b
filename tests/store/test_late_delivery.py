"""A message that is durable but could not be delivered at once."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from tests.support.faults import WatchedFiles
from tests.support.stores import eventually, publish, store_on


@pytest.mark.parametrize("size", [100, 70_000])
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
