"""Going on with a task that nobody works on."""

from __future__ import annotations

from pathlib import Path

import pytest

from mq.errors import StoreUnavailable
from mq.names import QueueName
from mq_sqs.fifo.service import FifoService
from mq_sqs.tasks.move_tasks import MoveTasks
from mq_sqs.tasks.task_notes import MoveTask, TaskStatus, active_task
from tests.support.stores import ORDERS, eventually, publish, store_on

TARGET = QueueName("target")


async def test_an_adoption_that_fails_gives_the_lock_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_queue: QueueName) -> None:
        raise StoreUnavailable("the disk is busy")

    async with store_on(tmp_path) as store:
        await store.create_queue(TARGET)
        await publish(store, b"a")
        task = MoveTask("a", TaskStatus.RUNNING, 1, 0, 1, TARGET)
        await store.change_settings(ORDERS, task.note())
        tasks = MoveTasks(store, FifoService(store))
        with monkeypatch.context() as broken:
            broken.setattr(store, "describe_queue", fail)
            with pytest.raises(StoreUnavailable):
                await tasks.adopt(ORDERS)

        await tasks.adopt(ORDERS)

        async def is_over() -> bool:
            return active_task(await store.read_settings(ORDERS)) is None

        await eventually(is_over)
        assert (await store.describe_queue(TARGET)).ready == 1
        await tasks.stop()
