"""The health of a store whose disk does not answer, or is full."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mq.store.store import Store
from tests.support.stores import store_on


class HangingDisk:
    """Looks at the root end when `goes_on` is set."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.looks = 0

    def look(self, *_: object) -> None:
        self.looks += 1
        assert self.goes_on.wait(60)


async def _trouble_of(store: Store) -> str | None:
    try:
        return await store.health.find_trouble()
    except OSError as error:
        return error.strerror


async def test_too_little_room_is_logged_once_and_so_is_its_end(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asyncio.timeout(60), store_on(root) as store:
        with capture_logs() as logs:
            with monkeypatch.context() as full:
                full.setattr(store.health._work.floor, "_floor_bytes", 2**60)
                for _ in range(2):
                    await store.health.look_at_root()
            for _ in range(2):
                await store.health.look_at_root()

    assert [each["event"] for each in logs] == ["publish refused", "publish taken again"]
    assert "--min-free" in logs[0]["why"]


async def test_a_disk_that_does_not_answer_is_trouble_and_keeps_one_worker(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = HangingDisk()
    async with asyncio.timeout(60), store_on(root) as store:
        with monkeypatch.context() as hanging, capture_logs() as logs:
            hanging.setattr("mq.store.health.find_trouble", disk.look)
            hanging.setattr("mq.store.health.LOOK_SECONDS", 0.01)
            for _ in range(20):
                assert "no answer" in str(await _trouble_of(store))
            await store.health.look_at_root()
        assert disk.looks == 1
        assert "the file system does not respond" in str(logs)
        assert store.health.moved is None

        disk.goes_on.set()

        while store.health._is_silent:
            await asyncio.sleep(0.001)
        assert await _trouble_of(store) is None


async def test_busy_workers_are_no_disk_that_does_not_answer(root: Path) -> None:
    work = HangingDisk()
    async with asyncio.timeout(60), store_on(root, workers=1) as store:
        store._workers.submit(work.look)
        try:
            assert await _trouble_of(store) is None
            assert await store.health.find_shortage() is None
        finally:
            work.goes_on.set()
