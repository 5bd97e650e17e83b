"""A move task whose queue has no room left in its settings: its end is noted all the same."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest

from mq.errors import InvalidRequest
from mq.names import QueueName
from mq.store.store import Store
from mq_sqs.fifo.service import FifoService
from mq_sqs.tasks.move_chunks import Chunk, Chunks
from mq_sqs.tasks.move_tasks import MoveTasks
from mq_sqs.tasks.task_notes import MoveTask, TaskStatus, started_notes, tasks_of
from tests.support.stores import ORDERS, eventually, publish, store_on

TARGET = QueueName("target")
OLD = MoveTask("old", TaskStatus.COMPLETED, 1, 0, 0)


async def leave_room_for_a_task(store: Store, total: int, rate: int | None = None) -> None:
    """Fill the settings up to the last byte that the notes of a task need at its start."""
    started = time.time_ns() // 1_000_000
    task = MoveTask(str(uuid.uuid4()), TaskStatus.RUNNING, started, 0, total, TARGET, rate)
    places = {f"own.{name[4:]}": text for name, text in started_notes(task).items()}
    await store.change_settings(ORDERS, places)
    step, number, length = 1000, 0, 0
    while step:
        number, length = (number, length + step) if length + step <= 4000 else (number + 1, step)
        try:
            await store.change_settings(ORDERS, {f"own.{number:04}": "x" * length})
        except InvalidRequest:
            length, step = length - step, step // 2
    await store.change_settings(ORDERS, dict.fromkeys(places, ""))


async def is_over(store: Store, tasks: MoveTasks) -> list[MoveTask]:
    """Wait for the end of the task, and return what is noted."""

    async def has_ended() -> bool:
        return ORDERS not in tasks._running

    await eventually(has_ended)
    return tasks_of(await store.read_settings(ORDERS))


async def test_the_end_of_a_task_is_noted_beside_older_ones(tmp_path: Path) -> None:
    async with store_on(tmp_path) as store:
        tasks = MoveTasks(store, FifoService(store))
        await store.create_queue(TARGET)
        await store.change_settings(ORDERS, OLD.note())
        for _ in range(10):
            await publish(store, b"a")
        await leave_room_for_a_task(store, 10)

        assert await tasks.start(ORDERS, TARGET, None) is not None

        [task, old] = await is_over(store, tasks)
        assert (await store.describe_queue(TARGET)).ready == 10
        assert (task.status, task.moved, old) == (TaskStatus.COMPLETED, 10, OLD)
        await store.change_settings(ORDERS, {"own.0000": ""})
        assert await tasks.start(ORDERS, TARGET, None) is not None
        await tasks.stop()


@pytest.mark.parametrize("length", [50, 1000])
async def test_why_a_task_failed_is_noted_and_cut_if_it_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    async with store_on(tmp_path) as store:
        tasks = MoveTasks(store, FifoService(store))
        await store.create_queue(TARGET)
        await publish(store, b"a")

        async def fail(chunks: Chunks, limit: int) -> Chunk:
            return Chunk(reason="x" * length)

        monkeypatch.setattr(Chunks, "move", fail)
        await leave_room_for_a_task(store, 1)

        assert await tasks.start(ORDERS, TARGET, None) is not None

        [task] = await is_over(store, tasks)
        assert (task.status, task.reason) == (TaskStatus.FAILED, "x" * 50)


async def test_a_task_can_be_cancelled_when_there_is_no_room_left(tmp_path: Path) -> None:
    async with store_on(tmp_path) as store:
        tasks = MoveTasks(store, FifoService(store))
        await store.create_queue(TARGET)
        for _ in range(10):
            await publish(store, b"a")
        await leave_room_for_a_task(store, 10, 1)
        task = await tasks.start(ORDERS, TARGET, 1)
        assert task is not None
        with pytest.raises(InvalidRequest):
            await store.change_settings(ORDERS, {"own.more": "x"})

        await tasks.cancel(ORDERS, task)

        [ended] = await is_over(store, tasks)
        assert ended.status is TaskStatus.CANCELLED
        assert (await store.describe_queue(ORDERS)).ready == 10 - ended.moved
