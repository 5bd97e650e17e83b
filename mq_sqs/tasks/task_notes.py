"""What a move task is, and how far it has come: a note in the settings of its source queue.

sqs.task.ID={"status":"RUNNING","started":1795343707123,"moved":20,"total":50,"rate":10   }

The spaces are the room that its end needs, so that settings which get full meanwhile have it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any

from mq.names import QueueName, is_queue_name
from mq.spool.queue.queue_settings import QueueSettings

TASK_CANCELLED = "sqs.task-cancelled"
"""The note with the id of a task that is to be cancelled. While a task runs, hyphens keep the room
for the id, so that the task can be cancelled even when the settings are full."""

NOT_CANCELLED = "-" * 36

_TASK = "sqs.task."

_REASON_ROOM = "x" * 50
"""As long as a reason that is a name of Amazon's. The sentences are longer."""


class TaskStatus(StrEnum):
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    CANCELLING = "CANCELLING"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class MoveTask:
    """A move task. `target` is None for the queues that the messages died in. `rate` is messages a
    second, None for no limit; `started` is in milliseconds since 1970, `reason` says why it
    FAILED."""

    task_id: str
    status: TaskStatus
    started: int
    moved: int
    total: int
    target: QueueName | None = None
    rate: int | None = None
    reason: str | None = None

    @property
    def name(self) -> str:
        """The name of its note."""
        return _TASK + self.task_id

    def note(self) -> dict[str, str]:
        text = self._text()
        if is_active(self):
            end = replace(self, status=TaskStatus.COMPLETED, moved=self.total, reason=_REASON_ROOM)
            text = text[:-1].ljust(len(end._text()) - 1) + "}"
        return {self.name: text}

    def _text(self) -> str:
        said = {name: value for name, value in asdict(self).items() if value is not None}
        del said["task_id"]
        return json.dumps(said, separators=(",", ":"))


def tasks_of(settings: QueueSettings) -> list[MoveTask]:
    """Return the tasks of a queue, the latest one first. The active one comes before all others,
    whatever the clock said when they began. A note that a person has spoiled is left out."""
    found = [
        _read(name.removeprefix(_TASK), text)
        for name, text in settings.notes.items()
        if name.startswith(_TASK)
    ]
    cancelled = settings.notes.get(TASK_CANCELLED)
    tasks = [
        replace(each, status=TaskStatus.CANCELLING)
        if each.status is TaskStatus.RUNNING and each.task_id == cancelled
        else each
        for each in found
        if each is not None
    ]
    return sorted(
        tasks, key=lambda each: (is_active(each), each.started, each.task_id), reverse=True
    )


def is_active(task: MoveTask) -> bool:
    return task.status in (TaskStatus.RUNNING, TaskStatus.CANCELLING)


def started_notes(task: MoveTask) -> dict[str, str]:
    """Return the change of settings that notes the start of a task, and keeps room for its end and
    its cancellation."""
    return {**task.note(), TASK_CANCELLED: NOT_CANCELLED}


def ends_of(task: MoveTask) -> list[dict[str, str]]:
    """Return changes of settings that note the end of a task. If the settings have no room for the
    first, they have it for the second: its reason is cut."""
    short = replace(task, reason=task.reason and task.reason[: len(_REASON_ROOM)])
    return [{TASK_CANCELLED: "", **each.note()} for each in (task, short)]


def _read(task_id: str, text: str) -> MoveTask | None:
    try:
        said: Mapping[str, Any] = json.loads(text)
        known = {each.name: said[each.name] for each in fields(MoveTask) if each.name in said}
        task = MoveTask(**{**known, "task_id": task_id, "status": TaskStatus(said["status"])})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    numbers = (task.started, task.moved, task.total, 1 if task.rate is None else task.rate)
    are_right = all(type(each) is int and each >= 0 for each in numbers) and task.rate != 0
    is_right = task.target is None or (isinstance(task.target, str) and is_queue_name(task.target))
    is_told = task.reason is None or isinstance(task.reason, str)
    return task if are_right and is_right and is_told else None


def active_task(settings: QueueSettings) -> MoveTask | None:
    return next(filter(is_active, tasks_of(settings)), None)
