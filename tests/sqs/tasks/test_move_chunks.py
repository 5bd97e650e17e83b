"""What a move task moves at a time, while others hold a message."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mq.names import MessageId, QueueName
from mq.store.moving.move import Moving
from mq.store.store import Store
from mq_sqs.fifo.service import FifoService
from mq_sqs.tasks.move_chunks import LOOK_AGAIN_SECONDS, Chunk, Chunks
from mq_sqs.tasks.move_tasks import MoveTasks
from mq_sqs.tasks.task_notes import TaskStatus, tasks_of
from tests.support.messages import pass_a_tick
from tests.support.stores import ORDERS, drain, eventually, publish, store_on

DEAD = QueueName("failed")
OTHER = QueueName("other")


async def bury(store: Store, number: int) -> list[MessageId]:
    """Publish messages, which die at once, and make the other queue."""
    for queue in (DEAD, OTHER):
        await store.create_queue(queue)
    ids = [await publish(store, b"a") for _ in range(number)]
    await store.move_by_id(Moving(ORDERS, DEAD, "max-receives"), ids)
    return ids


@contextmanager
def held(store: Store, root: Path, message_id: MessageId) -> Iterator[None]:
    """Hold a dead letter as another process does."""
    fd = os.open(root / "queues" / DEAD / message_id, os.O_RDONLY)
    assert store._work.files.lock(fd)
    try:
        yield
    finally:
        os.close(fd)


@pytest.mark.parametrize("target", [None, OTHER])
@pytest.mark.parametrize("is_let_go", [True, False])
async def test_a_message_that_others_held_is_looked_at_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_let_go: bool, target: QueueName | None
) -> None:
    monkeypatch.setattr("mq_sqs.tasks.move_chunks.LOOK_AGAIN_SECONDS", 0.0)
    async with store_on(tmp_path) as store:
        ids = await bury(store, 3)
        chunks = Chunks(store, FifoService(store), DEAD, target, clock=lambda: 0.0)

        with held(store, tmp_path, ids[0]):
            assert await chunks.move(10) == Chunk(2)
            found = [] if is_let_go else [await chunks.move(1) for _ in range(3)]
        if is_let_go:
            found = [await chunks.move(1) for _ in range(3)]

        assert sum(each.moved for each in found) == is_let_go
        assert found[-1] == Chunk(0, True)
        assert await drain(store, target or ORDERS) == (ids if is_let_go else ids[1:])


@pytest.mark.parametrize("target", [None, OTHER])
async def test_a_lone_message_that_others_held_is_moved_once_they_let_it_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: QueueName | None
) -> None:
    monkeypatch.setattr("mq_sqs.tasks.move_chunks.LOOK_AGAIN_SECONDS", 0.0)
    async with store_on(tmp_path) as store:
        ids = await bury(store, 1)
        chunks = Chunks(store, FifoService(store), DEAD, target, clock=lambda: 0.0)

        with held(store, tmp_path, ids[0]):
            assert await chunks.move(1) == Chunk(0)
        found = [await chunks.move(1) for _ in range(2)]

        assert Chunk(1) in found
        assert await drain(store, target or ORDERS) == ids


async def test_a_task_that_has_passed_too_many_messages_over_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mq_sqs.tasks.move_chunks.MAX_PASSED", 1)
    async with store_on(tmp_path) as store:
        first, second, _ = await bury(store, 3)
        chunks = Chunks(store, FifoService(store), DEAD, None, clock=lambda: 0.0)

        with held(store, tmp_path, first), held(store, tmp_path, second):
            assert [await chunks.move(1) for _ in range(2)] == [Chunk(0), Chunk(0, True)]


@pytest.mark.parametrize("target", [None, OTHER])
async def test_a_message_that_its_queue_would_remove_at_once_ends_the_task(
    tmp_path: Path, target: QueueName | None
) -> None:
    """The settings of its queue were changed after the task was let in."""
    async with store_on(tmp_path) as store:
        [dead] = await bury(store, 1)
        await store.change_settings(target or ORDERS, {"ttl": "0.000001"})
        pass_a_tick()
        tasks = MoveTasks(store, FifoService(store))

        await tasks.start(DEAD, target, None)

        async def is_over() -> bool:
            return tasks_of(await store.read_settings(DEAD))[0].status is TaskStatus.FAILED

        await eventually(is_over)
        [ended] = tasks_of(await store.read_settings(DEAD))
        assert ended.reason is not None
        assert f"{dead} was published" in ended.reason
        assert await drain(store, DEAD) == [dead]


async def test_a_message_that_others_held_is_moved_while_there_are_more(tmp_path: Path) -> None:
    now = 0.0
    async with store_on(tmp_path) as store:
        ids = await bury(store, 4)
        chunks = Chunks(store, FifoService(store), DEAD, None, clock=lambda: now)

        with held(store, tmp_path, ids[0]):
            assert await chunks.move(1) == Chunk(0)
        assert await chunks.move(1) == Chunk(1)
        now += 2 * LOOK_AGAIN_SECONDS
        assert await chunks.move(1) == Chunk(1)
        assert await drain(store) == ids[1:3]

        assert await chunks.move(1) == Chunk(1)
        assert await drain(store) == ids[:1]
