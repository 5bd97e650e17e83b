"""The rate of a move task, by a clock of its own."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from mq.names import QueueName
from mq_sqs.fifo.service import FifoService
from mq_sqs.tasks.move_tasks import MoveTasks
from mq_sqs.tasks.task_notes import TaskStatus, tasks_of
from tests.support.stores import ORDERS, eventually, publish, store_on

TARGET = QueueName("target")


async def test_what_a_task_has_missed_is_not_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    naps: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal now
        naps.append(seconds)
        now += 60.0 if len(naps) == 3 else seconds
        await asyncio.sleep(0)

    clock = SimpleNamespace(monotonic=lambda: now, time_ns=time.time_ns)
    monkeypatch.setattr("mq_sqs.tasks.move_tasks.time", clock)
    own = SimpleNamespace(**{**vars(asyncio), "sleep": sleep})
    monkeypatch.setattr("mq_sqs.tasks.move_tasks.asyncio", own)
    async with store_on(tmp_path) as store:
        await store.create_queue(TARGET)
        for _ in range(8):
            await publish(store, b"a")
        tasks = MoveTasks(store, FifoService(store))

        await tasks.start(ORDERS, TARGET, 4)

        async def is_over() -> bool:
            [task] = tasks_of(await store.read_settings(ORDERS))
            return task.status is TaskStatus.COMPLETED

        await eventually(is_over)
        await tasks.stop()
    assert naps == pytest.approx([0.25] * 8)


async def test_what_was_moved_since_the_note_was_written_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note is written about once a second, and this second never ends."""
    is_asleep = asyncio.Event()

    async def sleep(_seconds: float) -> None:
        is_asleep.set()
        await asyncio.Event().wait()

    clock = SimpleNamespace(monotonic=lambda: 0.0, time_ns=time.time_ns)
    monkeypatch.setattr("mq_sqs.tasks.move_tasks.time", clock)
    own = SimpleNamespace(**{**vars(asyncio), "sleep": sleep})
    monkeypatch.setattr("mq_sqs.tasks.move_tasks.asyncio", own)
    async with store_on(tmp_path) as store:
        await store.create_queue(TARGET)
        for _ in range(3):
            await publish(store, b"a")
        tasks = MoveTasks(store, FifoService(store))

        await tasks.start(ORDERS, TARGET, 1)
        await is_asleep.wait()

        [noted] = tasks_of(await store.read_settings(ORDERS))
        assert noted.moved == 0
        assert tasks.latest(ORDERS, noted).moved == 1
        assert tasks.latest(TARGET, noted) == noted
        await tasks.stop()
        assert tasks.latest(ORDERS, noted) == noted
