"""What a note says of a move task."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mq.names import QueueName
from mq.spool.queue.queue_settings import QueueSettings
from mq_sqs.tasks.task_notes import TASK_CANCELLED, MoveTask, TaskStatus, active_task, tasks_of

DONE = MoveTask("a", TaskStatus.FAILED, 1, 2, 3, QueueName("mail"), 10, "because \u00e4")
RUNNING = MoveTask("b", TaskStatus.RUNNING, 2, 0, 3)


def settings_with(notes: dict[str, str]) -> QueueSettings:
    return QueueSettings(notes=notes)


def test_a_note_says_all_of_a_task_and_the_latest_comes_first() -> None:
    settings = settings_with({"sqs.wait": "1", **DONE.note(), **RUNNING.note()})

    assert tasks_of(settings) == [RUNNING, DONE]
    assert active_task(settings) == RUNNING
    assert all(text.isascii() for text in DONE.note().values())


def test_a_task_that_runs_comes_first_though_the_clock_was_set_back() -> None:
    """ListMessageMoveTasks shows one task unless more are asked for."""
    later = replace(DONE, task_id="c", started=10)

    assert tasks_of(settings_with({**later.note(), **RUNNING.note()})) == [RUNNING, later]


def test_a_task_is_cancelled_by_a_note_beside_it() -> None:
    """So that a change of what was moved does not take it back."""
    notes = {**DONE.note(), **RUNNING.note()}

    cancelling = tasks_of(settings_with({**notes, TASK_CANCELLED: "b"}))
    other = tasks_of(settings_with({**notes, TASK_CANCELLED: "a"}))

    assert cancelling == [replace(RUNNING, status=TaskStatus.CANCELLING), DONE]
    assert other == [RUNNING, DONE]


@pytest.mark.parametrize(
    "text", ["x", "[]", "{}", '{"status":"RUNNING"}', '{"status":"NO","started":1}',
             '{"status":"RUNNING","started":1,"moved":0,"total":1,"target":"../a"}',
             '{"status":"RUNNING","started":1,"moved":0,"total":1,"rate":0}',
             '{"status":"RUNNING","started":1,"moved":true,"total":1}',
             '{"status":"FAILED","started":1,"moved":0,"total":1,"reason":["x"]}',
             '{"status":"RUNNING","started":"1","moved":0,"total":1}', "[" * 3000],
)  # fmt: skip
def test_a_note_that_a_person_has_spoiled_is_left_out(text: str) -> None:
    settings = settings_with({"sqs.task.a": text, **RUNNING.note()})

    assert tasks_of(settings) == [RUNNING]
