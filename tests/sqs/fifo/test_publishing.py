"""Batches: what is left of one that fails or is cut off is its beginning."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from mq.errors import QueueNotFound, StoreUnavailable
from tests.support.faults import WatchedFiles
from tests.support.fifo import LINE, FifoLine, fifo_on

THREE = (("1", "a"), ("2", "a"), ("3", "a"))


async def drain_three(line: FifoLine) -> list[str]:
    """All three, which a sweep may have to deliver first."""
    found: list[str] = []
    while len(found) < len(THREE):
        found += await line.drain()
        await asyncio.sleep(0.01)
    return found


async def test_the_data_of_a_batch_is_durable_before_its_first_message_has_a_name(
    root: Path,
) -> None:
    files = WatchedFiles()
    synced: list[int] = []
    async with fifo_on(root, files) as line:
        await line.bodies()
        before = files.syncs()
        files.before["link"] = lambda *_: synced.append(files.syncs() - before)

        await line.send_all(*THREE)

        assert len(synced) == len(THREE)
        assert synced[0] > 0


async def test_after_a_link_that_failed_no_later_message_of_the_batch_gets_a_name(
    root: Path,
) -> None:
    files = WatchedFiles()
    async with fifo_on(root, files) as line:
        await line.bodies()
        before = files.calls["link"]
        files.fail("link")

        with pytest.raises(StoreUnavailable):
            await line.send_all(*THREE)

        assert files.calls["link"] == before + 1
        assert os.listdir(root / "new") == []
        assert not any(each.is_duplicate for each in await line.send_all(*THREE))
        assert await line.drain() == ["1", "2", "3"]


async def test_a_batch_that_is_taken_back_in_part_leaves_its_beginning(root: Path) -> None:
    """What was left is not sent again, and what comes behind it is."""
    files = WatchedFiles()
    async with fifo_on(root, files) as line:
        await line.bodies()
        links = files.calls["link"] + len(THREE)

        def fail_at_the_last(*_: object) -> None:
            if files.calls["link"] == links:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        unlinks = files.calls["unlink"] + len(THREE)

        def fail_at_the_first(*_: object) -> None:
            if files.calls["unlink"] == unlinks:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        files.before |= {"link": fail_at_the_last, "unlink": fail_at_the_first}
        with pytest.raises(StoreUnavailable):
            await line.send_all(*THREE)
        files.before.clear()

        told = await line.send_all(*THREE)

        assert [each.is_duplicate for each in told] == [True, False, False]
        assert await drain_three(line) == ["1", "2", "3"]


async def test_a_queue_that_is_deleted_while_a_batch_is_written_gets_none_of_it(
    disk: Path,
) -> None:
    files = WatchedFiles()
    async with fifo_on(disk, files) as line:
        await line.bodies()

        def delete(*_: object) -> None:
            files.before.clear()
            (disk / "queues" / LINE).rename(disk / "remove" / f"{LINE}:.deleting")

        files.before |= {"sync": delete, "sync_file_system": delete}
        with pytest.raises(QueueNotFound):
            await line.send_all(*THREE)

        assert os.listdir(disk / "new") == []
