"""Move tasks: dead letters go back to their queues, or to another one, at a rate.

What a task is, and how far it has come, is a note in the settings of its source queue. It is
written before `StartMessageMoveTask` is answered, about once a second while messages are moved, and
at the end. A byte of the root's file `format` is the lock of a source queue, and the process that
moves its messages holds it. A crash leaves a task that is RUNNING and a lock that no process holds:
the next gateway that starts, or one that is asked about that queue, goes on with the task. Each
message is moved by one rename, so that it is in one of the two queues whatever happens.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import structlog

from mq.errors import InvalidRequest, QueueNotFound, StoreUnavailable, TooOld
from mq.names import QueueName, is_fifo
from mq.spool.locks import lock_names
from mq.spool.queue.queue_settings import QueueSettings
from mq.store.shared_state import Workspace
from mq.store.store import Store
from mq_sqs.faults import QUEUE_DOES_NOT_EXIST
from mq_sqs.fifo.service import MAX_READING_SECONDS, FifoService
from mq_sqs.tasks.move_chunks import Chunk, Chunks
from mq_sqs.tasks.task_notes import (
    TASK_CANCELLED,
    MoveTask,
    TaskStatus,
    active_task,
    ends_of,
    is_active,
    started_notes,
    tasks_of,
)

log = structlog.get_logger(__name__)

MAX_TASKS = 10
"""How many tasks of a queue are kept, the one that runs included."""

CHUNK_MESSAGES = 100
"""The most that are moved before the task looks whether it was cancelled."""

SAVE_SECONDS = 1.0
RETRY_SECONDS = 1.0

_LOCK_TRIES = 200
_LOCK_PAUSE_SECONDS = 0.01

Unlock = Callable[[], None]
"""Gives the lock of a queue back, whatever has become of the store."""


class MoveTasks:
    """The tasks that this process works on."""

    def __init__(self, store: Store, fifo: FifoService) -> None:
        self._store = store
        self._fifo = fifo
        self._running: dict[QueueName, _Run] = {}

    async def start(
        self, source: QueueName, target: QueueName | None, rate: int | None
    ) -> MoveTask | None:
        """Begin a task, durably. Returns None if the queue has an active one. Raises QueueNotFound,
        InvalidRequest, and StoreUnavailable also if another gateway has the FIFO queues."""
        if is_fifo(source):
            await self._fifo.require(source)
        lock = await self._lock_unless_active(source)
        if lock is None:
            return None
        try:
            known = tasks_of(await self._store.read_settings(source))
            if any(map(is_active, known)):
                return None
            total = (await self._store.describe_queue(source)).ready
            task = MoveTask(
                str(uuid.uuid4()), TaskStatus.RUNNING, time.time_ns() // 1_000_000, 0, total,
                target, rate,
            )  # fmt: skip
            old = {each.name: "" for each in known[MAX_TASKS - 1 :]}
            await self._store.change_settings(source, {**old, **started_notes(task)})
            self._begin(source, task, lock)
            lock = None
            return task
        finally:
            if lock is not None:
                lock()

    async def cancel(self, source: QueueName, task: MoveTask) -> None:
        """Ask for the end of a task, durably. The process that moves the messages looks at that
        before each chunk of them. Raises QueueNotFound, StoreUnavailable, and InvalidRequest if the
        settings are full and the room that its start kept was taken away."""
        await self._store.change_settings(source, {TASK_CANCELLED: task.task_id})
        await self.adopt(source)

    async def adopt(
        self, source: QueueName, within_seconds: float | None = MAX_READING_SECONDS
    ) -> None:
        """Go on with a task that nobody works on, unless its FIFO queue is not read by then or is
        another gateway's. Raises QueueNotFound, StoreUnavailable."""
        if source in self._running or active_task(await self._store.read_settings(source)) is None:
            return
        if is_fifo(source):
            try:
                await self._fifo.require(source, within_seconds)
            except StoreUnavailable:
                return
        lock = await self._lock(source)
        if lock is None:
            return
        try:
            ready = (await self._store.describe_queue(source)).ready
            task = active_task(await self._store.read_settings(source))
            if task is not None and source not in self._running:
                # What was moved since the last note is not there any more.
                moved = max(task.moved, task.total - ready)
                log.info("move task goes on", queue=source, task=task.task_id, moved=moved)
                self._begin(source, replace(task, status=TaskStatus.RUNNING, moved=moved), lock)
                lock = None
        finally:
            if lock is not None:
                lock()

    async def adopt_all(self) -> None:
        """Go on with all tasks that nobody works on. Never raises."""
        try:
            for queue in await self._store.list_queues():
                with suppress(QueueNotFound):
                    await self.adopt(queue, None)
        except StoreUnavailable as error:
            log.warning("move tasks wait until they are asked for", why=str(error))

    def latest(self, source: QueueName, task: MoveTask) -> MoveTask:
        """Return a task with what this process has moved since the note was written."""
        run = self._running.get(source)
        if run is None or run.task.task_id != task.task_id:
            return task
        return replace(task, moved=max(task.moved, run.task.moved))

    async def stop(self) -> None:
        """Leave the tasks to the next gateway."""
        running = [each.work for each in self._running.values()]
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _begin(self, source: QueueName, task: MoveTask, lock: Unlock) -> None:
        def end(work: asyncio.Task[None]) -> None:
            self._running.pop(source, None)
            lock()
            defect = None if work.cancelled() else work.exception()
            if defect is not None:
                log.error("move task ended early", queue=source, exc_info=defect)

        run = self._running[source] = _Run(self._store, self._fifo, source, task)
        # Not at the end of the work itself: what is cancelled before it begins has none.
        run.work.add_done_callback(end)

    async def _lock_unless_active(self, source: QueueName) -> Unlock | None:
        """Take the queue's lock as `_lock` does, once a task that has just ended gives it back.
        Returns None if there is an active task. Raises StoreUnavailable."""
        for _ in range(_LOCK_TRIES):
            lock = await self._lock(source)
            if lock is not None or active_task(await self._store.read_settings(source)) is not None:
                return lock
            await asyncio.sleep(_LOCK_PAUSE_SECONDS)
        raise StoreUnavailable(f"queue {source}: another process holds its move tasks")

    async def _lock(self, source: QueueName) -> Unlock | None:
        """Take the queue's lock. Returns None if another process, or a task of this one, has it."""
        return await self._store.call(_take_lock, source)


class _Run:
    """A task on its way, and the work on it. Its note was written at `_saved`. With a rate nothing
    is moved before `_due`."""

    def __init__(self, store: Store, fifo: FifoService, source: QueueName, task: MoveTask) -> None:
        self._store = store
        self._source = source
        self.task = task
        self._chunks = Chunks(store, fifo, source, task.target)
        self._saved = self._due = time.monotonic()
        self.work = asyncio.create_task(self._go_on())

    async def _go_on(self) -> None:
        """Move messages to the end of the task, or to that of its queue."""
        with suppress(QueueNotFound):  # the queue was deleted, and its tasks with it
            while True:
                try:
                    return await self._to_the_end()
                except StoreUnavailable as error:
                    log.warning("move task waits", queue=self._source, why=str(error))
                    await asyncio.sleep(RETRY_SECONDS)

    async def _to_the_end(self) -> None:
        """Move messages until the task is over. Raises QueueNotFound if the source is gone,
        StoreUnavailable."""
        while True:
            task, begun = self.task, time.monotonic()
            settings = await self._settings()
            if settings.notes.get(TASK_CANCELLED) == task.task_id:
                return await self._end(TaskStatus.CANCELLED)
            limit = min(task.total - task.moved, CHUNK_MESSAGES, max(1, (task.rate or 1000) // 10))
            chunk = await self._move(limit) if limit > 0 else Chunk(is_last=True)
            self.task = replace(task, moved=task.moved + chunk.moved)
            if chunk.reason is not None:
                return await self._end(TaskStatus.FAILED, chunk.reason)
            if chunk.is_last:
                return await self._end(TaskStatus.COMPLETED)
            if time.monotonic() > self._saved + SAVE_SECONDS:
                await self._save()
            if task.rate is not None:
                # What was missed, while a disk was full for example, is not made up for.
                self._due = max(self._due, begun) + chunk.moved / task.rate
                await asyncio.sleep(max(0.0, self._due - time.monotonic()))

    async def _move(self, limit: int) -> Chunk:
        """Move up to `limit` messages. Raises what `_to_the_end` raises."""
        try:
            return await self._chunks.move(limit)
        except (QueueNotFound, InvalidRequest, TooOld) as error:
            await self._settings()
            is_gone = isinstance(error, QueueNotFound)
            return Chunk(reason=QUEUE_DOES_NOT_EXIST.code if is_gone else str(error))

    async def _end(self, status: TaskStatus, reason: str | None = None) -> None:
        self.task = replace(self.task, status=status, reason=reason and reason[:1000])
        await self._settings()
        for changes in ends_of(self.task):
            with suppress(InvalidRequest):  # the settings are full
                await self._store.change_settings(self._source, changes)
                break
        log.info(
            "move task ended", queue=self._source, task=self.task.task_id, status=str(status),
            moved=self.task.moved, reason=reason or "",
        )  # fmt: skip

    async def _settings(self) -> QueueSettings:
        """Read the settings of the source. Raises QueueNotFound, also if another queue of that name
        has been made meanwhile, and StoreUnavailable."""
        settings = await self._store.read_settings(self._source)
        if self.task.name not in settings.notes:
            raise QueueNotFound(f"queue {self._source} was deleted, and its tasks with it")
        return settings

    async def _save(self) -> None:
        await self._settings()
        self._saved = time.monotonic()
        with suppress(InvalidRequest):  # the settings are full: what was moved is moved
            await self._store.change_settings(self._source, self.task.note())


def _take_lock(work: Workspace, source: QueueName) -> Unlock | None:
    fd = lock_names(work.spool, [f"{source}/tasks"])
    return None if fd is None else partial(work.files.close, fd)
