"""Messages of several requests that are sent in one turn of the event loop: one operation for all,
and what is wrong with one costs no other."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mq.disk.files import Files
from mq.errors import QueueNotFound, StoreUnavailable
from mq.store.publishing.publish import Published
from tests.support.descriptors import open_descriptors
from tests.support.faults import WatchedFiles
from tests.support.fifo import LINE, FifoLine, fifo_on
from tests.support.submits import note_operations

Outcome = Published | BaseException


@asynccontextmanager
async def used(root: Path, files: Files | None = None, **settings: Any) -> AsyncIterator[FifoLine]:
    """A queue that was read, on a root that has seen properties: as it is after the first
    message."""
    async with fifo_on(root, files, **settings) as line:
        await line.send("first")
        assert await line.drain() == ["first"]
        yield line


async def send(line: FifoLine, *bodies: str, again: str | None = None) -> list[Outcome]:
    """Return what each request of one turn is told."""
    asking = (line.send(body, again=again) for body in bodies)
    async with asyncio.timeout(20):
        return [*await asyncio.gather(*asking, return_exceptions=True)]


def sent(outcomes: list[Outcome]) -> list[bool]:
    """Those that succeeded."""
    return [isinstance(each, Published) for each in outcomes]


async def drain(line: FifoLine, count: int) -> list[str]:
    """Return that many messages, which a sweep may have to deliver first."""
    found: list[str] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += await line.drain()
            await asyncio.sleep(0.01)
    return found


async def test_they_are_one_operation_and_keep_their_order(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with used(root) as line:
        submitted = note_operations(monkeypatch, "send_in_order", "send_each")
        bodies = [str(number) for number in range(9)]

        outcomes = await send(line, *bodies)

        assert [each.requests for each in submitted] == [9]
        assert all(sent(outcomes))
        assert os.listdir(root / "new") == []
        assert await line.drain() == bodies


async def test_they_share_a_sync(disk: Path) -> None:
    files = WatchedFiles()
    async with used(disk, files) as line:
        before = files.syncs()

        assert all(sent(await send(line, *map(str, range(20)))))

        assert files.syncs() - before <= 1


async def test_of_the_same_one_is_sent(root: Path) -> None:
    async with used(root) as line:
        outcomes = await send(line, "1", "2", "3", again="id")

        told = [each for each in outcomes if isinstance(each, Published)]
        assert [each.is_duplicate for each in told] == [False, True, True]
        assert len({each.message_id for each in told}) == 1
        assert await line.drain() == ["1"]


async def test_one_that_was_sent_before_is_answered_with_the_first(root: Path) -> None:
    async with used(root) as line:
        [first] = await send(line, "1")

        outcomes = await send(line, "0", "1", "2")

        told = [each for each in outcomes if isinstance(each, Published)]
        assert [each.is_duplicate for each in told] == [False, True, False]
        assert isinstance(first, Published)
        assert told[1].message_id == first.message_id
        assert await line.drain() == ["1", "0", "2"]


async def test_beside_a_batch_that_is_just_being_sent_nothing_is_sent_twice(root: Path) -> None:
    async with used(root) as line:
        batch, outcomes = await asyncio.gather(
            line.send_all(("1", "a"), ("2", "a")), send(line, *"123")
        )

        told = [each for each in outcomes if isinstance(each, Published)]
        assert len({each.message_id for each in [*batch, *told]}) == len(told) == 3
        assert sorted(await line.drain()) == ["1", "2", "3"]


@pytest.mark.parametrize("call", ["open_unnamed", "write", "set_attribute", "lock", "link"])
async def test_a_call_that_fails_for_one_costs_no_other(root: Path, call: str) -> None:
    files = WatchedFiles()
    async with used(root, files) as line:
        descriptors = open_descriptors()
        files.fail(call, code=errno.ENOSPC)

        outcomes = await send(line, "1", "2", "3")

        assert isinstance(outcomes[0], StoreUnavailable)
        assert sent(outcomes) == [False, True, True]
        assert open_descriptors() == descriptors
        files.before.clear()
        [again] = await send(line, "1")
        assert isinstance(again, Published)
        assert not again.is_duplicate
        assert os.listdir(root / "new") == []
        assert await line.drain() == ["2", "3", "1"]


async def test_a_failed_sync_fails_all_and_leaves_nothing(disk: Path) -> None:
    files = WatchedFiles()
    async with used(disk, files) as line:
        files.fail("sync", "sync_file_system")

        outcomes = await send(line, "1", "2", "3")

        assert {type(each) for each in outcomes} == {StoreUnavailable}
        assert os.listdir(disk / "new") == []
        files.before.clear()
        async with asyncio.timeout(20):
            while not all(sent(again := await send(line, "1", "2", "3"))):
                await asyncio.sleep(0.01)
        assert not any(each.is_duplicate for each in again if isinstance(each, Published))
        assert await line.drain() == ["1", "2", "3"]


async def test_what_cannot_be_delivered_is_left_to_the_sweep(root: Path) -> None:
    files = WatchedFiles()
    async with used(root, files) as line:
        files.fail("rename")

        outcomes = await send(line, "1", "2", "3")

        assert all(sent(outcomes))
        assert await drain(line, 3) == ["1", "2", "3"]


async def test_a_queue_with_room_for_some_takes_some(root: Path) -> None:
    async with used(root, max_queue_messages=3) as line:
        outcomes = await send(line, *map(str, range(5)))

        assert [type(each) for each in outcomes] == [Published] * 3 + [StoreUnavailable] * 2
        assert await line.drain() == ["0", "1", "2"]


async def test_a_queue_that_is_deleted_meanwhile_gets_none_of_them(disk: Path) -> None:
    files = WatchedFiles()
    async with used(disk, files) as line:

        def delete(*_: object) -> None:
            files.before.clear()
            (disk / "queues" / LINE).rename(disk / "remove" / f"{LINE}:.deleting")

        files.before |= {"sync": delete, "sync_file_system": delete}
        outcomes = await send(line, "1", "2", "3")

        assert {type(each) for each in outcomes} == {QueueNotFound}
        assert os.listdir(disk / "new") == []
