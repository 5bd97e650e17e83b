"""Move tasks on a store, and what a killed gateway leaves of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mq.names import MessageId, QueueName
from mq.store.moving.move import Moving
from mq.store.store import Store
from mq_sqs.fifo.service import FifoService
from mq_sqs.tasks.move_tasks import MAX_TASKS, MoveTasks
from mq_sqs.tasks.task_notes import MoveTask, TaskStatus, tasks_of
from tests.support.faults import MortalFiles
from tests.support.stores import (
    ORDERS,
    MortalStore,
    drain,
    eventually,
    publish,
    publish_as,
    store_on,
)

DEAD, MAIL, OTHER = QueueName("failed"), QueueName("mail"), QueueName("other")


async def fill(store: Store, *sources: QueueName) -> list[MessageId]:
    """A dead letter of each of them, in the order of their ids."""
    for queue in (DEAD, MAIL, OTHER):
        await store.create_queue(queue)
    ids = [await publish(store, b"a", queue) for queue in sources]
    for message_id, queue in zip(ids, sources, strict=True):
        await store.move_by_id(Moving(queue, DEAD, "max-receives"), [message_id])
    return ids


@asynccontextmanager
async def tasks_on(root: Path) -> AsyncIterator[tuple[Store, MoveTasks]]:
    """Those of a gateway of its own."""
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(store_on(root))
        tasks = MoveTasks(store, FifoService(store))
        stack.push_async_callback(tasks.stop)
        yield store, tasks


async def tasks_in(store: Store) -> list[MoveTask]:
    return tasks_of(await store.read_settings(DEAD))


async def end_of(store: Store) -> MoveTask:
    """The latest task, once it is over."""

    async def is_over() -> bool:
        return (await tasks_in(store))[0].status not in (
            TaskStatus.RUNNING,
            TaskStatus.CANCELLING,
        )

    await eventually(is_over)
    return (await tasks_in(store))[0]


async def test_dead_letters_go_back_to_where_each_died(tmp_path: Path) -> None:
    async with tasks_on(tmp_path) as (store, tasks):
        ids = await fill(store, ORDERS, MAIL, ORDERS)

        begun = await tasks.start(DEAD, None, None)
        ended = await end_of(store)

        assert begun is not None
        assert ended == replace(begun, status=TaskStatus.COMPLETED, moved=3)
        assert await drain(store, ORDERS) == [ids[0], ids[2]]
        assert await drain(store, MAIL) == [ids[1]]


async def test_dead_letters_go_to_another_queue(tmp_path: Path) -> None:
    async with tasks_on(tmp_path) as (store, tasks):
        ids = await fill(store, ORDERS, MAIL)

        await tasks.start(DEAD, OTHER, 500)

        assert (await end_of(store)).moved == 2
        assert await drain(store, OTHER) == ids


async def test_a_queue_has_one_active_task_and_a_cancelled_one_leaves_the_rest(
    tmp_path: Path,
) -> None:
    async with tasks_on(tmp_path) as (store, tasks), tasks_on(tmp_path) as (_, other):
        await fill(store, *[ORDERS] * 4)
        begun = await tasks.start(DEAD, None, 1)
        assert begun is not None

        assert await tasks.start(DEAD, None, None) is None
        assert await other.start(DEAD, OTHER, None) is None
        await other.cancel(DEAD, begun)

        assert (await end_of(store)).status is TaskStatus.CANCELLED
        assert (await store.describe_queue(DEAD)).ready >= 1
        assert await tasks.start(DEAD, None, None) is not None
        assert (await end_of(store)).status is TaskStatus.COMPLETED
        assert len(await drain(store)) == 4


async def test_another_gateway_goes_on_with_a_task_once_nobody_works_on_it(
    tmp_path: Path,
) -> None:
    async with tasks_on(tmp_path) as (store, tasks), tasks_on(tmp_path) as (_, other):
        await fill(store, *[ORDERS] * 60)
        begun = await tasks.start(DEAD, None, 20)
        await other.adopt_all()
        assert (await tasks_in(store))[0].status is TaskStatus.RUNNING

        await tasks.stop()
        assert begun is not None
        await store.change_settings(DEAD, replace(begun, rate=None).note())
        await other.adopt(DEAD)

        assert (await end_of(store)).moved == 60
        assert len(await drain(store)) == 60


async def test_a_task_that_was_cancelled_while_nobody_worked_on_it_moves_nothing(
    tmp_path: Path,
) -> None:
    async with tasks_on(tmp_path) as (store, tasks):
        await fill(store, ORDERS)
        task = MoveTask("a", TaskStatus.RUNNING, 1, 0, 1)
        await store.change_settings(DEAD, task.note())

        await tasks.cancel(DEAD, task)

        assert (await end_of(store)).status is TaskStatus.CANCELLED
        assert await drain(store) == []


async def test_a_message_that_does_not_say_where_it_died_ends_the_task(tmp_path: Path) -> None:
    async with tasks_on(tmp_path) as (store, tasks):
        await fill(store, ORDERS)
        await publish(store, b"never received", DEAD)

        await tasks.start(DEAD, None, None)

        ended = await end_of(store)
        assert (ended.status, ended.reason) == (TaskStatus.FAILED, "CouldNotDetermineMessageSource")
        assert (await store.describe_queue(DEAD)).ready == 1


@pytest.mark.parametrize("target", [None, ORDERS])
async def test_a_message_whose_id_is_taken_stays_and_is_reported(
    tmp_path: Path, target: QueueName | None
) -> None:
    async with tasks_on(tmp_path) as (store, tasks):
        first, second = await fill(store, ORDERS, ORDERS)
        await publish_as(store, b"another", message_id=first)

        await tasks.start(DEAD, target, 9)

        ended = await end_of(store)
        assert (ended.status, ended.moved) == (TaskStatus.FAILED, 1)
        assert ended.reason is not None
        assert first in ended.reason
        assert await drain(store) == [first, second]
        assert await drain(store, DEAD) == [first]


@pytest.mark.parametrize("target", [None, MAIL])
async def test_a_queue_that_is_gone_ends_the_task(tmp_path: Path, target: QueueName | None) -> None:
    async with tasks_on(tmp_path) as (store, tasks):
        await fill(store, MAIL)
        await store.delete_queue(MAIL)

        await tasks.start(DEAD, target, None)

        ended = await end_of(store)
        assert ended.status is TaskStatus.FAILED
        assert ended.reason == "AWS.SimpleQueueService.NonExistentQueue"


async def test_a_task_ends_with_its_queue(tmp_path: Path) -> None:
    async with tasks_on(tmp_path) as (store, tasks):
        await fill(store, *[ORDERS] * 30)
        await tasks.start(DEAD, None, 1)

        await store.delete_queue(DEAD)

        async def is_over() -> bool:
            return DEAD not in tasks._running

        await eventually(is_over)
        await store.create_queue(DEAD)

        assert await tasks_in(store) == []


async def test_the_latest_tasks_are_kept(tmp_path: Path) -> None:
    async with tasks_on(tmp_path) as (store, tasks):
        await fill(store)
        begun = []
        for _ in range(MAX_TASKS + 2):
            task = await tasks.start(DEAD, None, None)
            assert task is not None
            begun.append(task.task_id)
            await end_of(store)

        found = [each.task_id for each in await tasks_in(store)]

        assert len(found) == MAX_TASKS
        assert set(found) == set(begun[2:])


def test_a_task_goes_on_wherever_a_crash_cut_it(tmp_path: Path) -> None:
    """Killed after each change of a file: no message is lost or doubled, and a task that was begun
    is finished by the next gateway."""
    at, is_over = 0, False
    with asyncio.Runner() as runner:
        while not is_over:
            root = tmp_path / str(at)
            is_over = runs_to_the_end(runner, root, at)
            at += 1
    assert at > 15  # Each takes 19 or more, by what shares a sync.


def runs_to_the_end(runner: asyncio.Runner, root: Path, calls: int) -> bool:
    """Run one task, killed after `calls` changes. Returns whether it came to its end before."""
    mortal = MortalStore(root, runner, MortalFiles())
    mortal.run(mortal.store.create_queue(ORDERS))
    ids = mortal.run(fill(mortal.store, ORDERS, MAIL, ORDERS))
    is_begun, is_over = mortal.run(cut_short(mortal, calls))
    mortal.kill()

    again = MortalStore(root, runner, MortalFiles())
    found, task = again.run(go_on(again.store))
    again.close()
    assert sorted(found) == sorted(ids)
    assert len(found) == 3
    if is_begun:
        assert task is not None
    if task is not None:
        assert (task.status, task.moved, task.total) == (TaskStatus.COMPLETED, 3, 3)
    return is_over


async def cut_short(mortal: MortalStore, calls: int) -> tuple[bool, bool]:
    """Returns whether the start was answered, and whether the end of the task was written."""
    tasks, is_begun = MoveTasks(mortal.store, FifoService(mortal.store)), False
    mortal.files.calls_left = calls
    try:
        is_begun = await tasks.start(DEAD, None, 500) is not None
        while mortal.files.calls_left > 0:
            [task] = await tasks_in(mortal.store)
            if task.status is TaskStatus.COMPLETED:
                return True, True
            await asyncio.sleep(0.001)
    except Exception:
        assert not is_begun
    finally:
        await tasks.stop()
    return is_begun, False


async def go_on(store: Store) -> tuple[list[MessageId], MoveTask | None]:
    """The ids of all messages, those that are still dead included, and the task at its end."""
    tasks = MoveTasks(store, FifoService(store))
    await tasks.adopt_all()
    task = await end_of(store) if await tasks_in(store) else None
    await tasks.stop()
    found = [*await drain(store, ORDERS), *await drain(store, MAIL)]
    if task is not None:
        assert len(found) == 3
    return [*found, *await drain(store, DEAD)], task


async def test_a_defect_ends_a_task_with_a_line_in_the_log_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(run: object) -> None:
        raise RuntimeError("a defect")

    async with tasks_on(tmp_path) as (store, tasks):
        await fill(store, ORDERS)
        with monkeypatch.context() as broken, capture_logs() as logs:
            broken.setattr("mq_sqs.tasks.move_tasks._Run._to_the_end", fail)
            await tasks.start(DEAD, None, None)

            async def is_left() -> bool:
                return DEAD not in tasks._running

            await eventually(is_left)
        await tasks.adopt(DEAD)
        assert logs[0]["event"] == "move task ended early"
        assert (await end_of(store)).moved == 1
