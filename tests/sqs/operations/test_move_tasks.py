"""Move tasks as boto3 sees them, and what is refused."""

from __future__ import annotations

import base64
import json
import shutil
from typing import Any

import pytest
from botocore.exceptions import ClientError

from mq.spool.queue.settings_file import MAX_SETTINGS_BYTES
from mq_sqs.tasks.task_notes import MoveTask, TaskStatus
from tests.support.gateways import ask_both, make_url, name_of
from tests.support.processes import Server, wait_until

ARN = "arn:aws:sqs:us-east-1:000000000000:"


def make_dead(sqs: Any) -> tuple[str, str]:
    """The URLs of a queue and of the one for its dead letters."""
    dead = make_url(sqs)
    policy = {"deadLetterTargetArn": ARN + name_of(dead), "maxReceiveCount": 1}
    return make_url(sqs, RedrivePolicy=json.dumps(policy)), dead


def bury(sqs: Any, url: str, dead: str, *bodies: str) -> None:
    """Messages that were received once too often."""
    for body in bodies:
        sqs.send_message(QueueUrl=url, MessageBody=body)
    for _ in bodies:
        assert sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)["Messages"]
    wait_until(lambda: ready_in(sqs, dead) == len(bodies))


def ready_in(sqs: Any, url: str) -> int:
    name = "ApproximateNumberOfMessages"
    return int(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])


def tasks_of(sqs: Any, url: str, most: int = 10) -> list[dict[str, Any]]:
    told = sqs.list_message_move_tasks(SourceArn=ARN + name_of(url), MaxResults=most)
    return list(told.get("Results", []))


def pack(said: object) -> str:
    """A handle of a task that says this, as another program may make it."""
    return base64.b64encode(json.dumps(said, separators=(",", ":")).encode()).decode()


def full_of_notes(task_id: str, status: TaskStatus = TaskStatus.RUNNING) -> str:
    """Settings of a queue with a task, a tag, and room for nothing more."""
    task = MoveTask(task_id, status, 1, 0, 3, rate=1)
    lines = [f"{name}={text}\n" for name, text in task.note().items()]
    lines.append(f"sqs.tag.own={'x' * 400}\n")
    lines += [f"own.{number}={'x' * 3000}\n" for number in range(21)]
    left = MAX_SETTINGS_BYTES - len("".join(lines)) - len("own.z=\n")
    return "".join([*lines, f"own.z={'x' * left}\n"])


def refused(call: Any, **values: object) -> str:
    with pytest.raises(ClientError) as caught:
        call(**values)
    return str(caught.value.response["Error"]["Code"])


def test_dead_letters_are_redriven_and_say_where_they_died(gateway: Server, sqs: Any) -> None:
    url, dead = make_dead(sqs)
    bury(sqs, url, dead, "a", "b")
    [received] = sqs.receive_message(
        QueueUrl=dead, VisibilityTimeout=0, MessageSystemAttributeNames=["All"]
    )["Messages"]

    handle = sqs.start_message_move_task(SourceArn=ARN + name_of(dead))["TaskHandle"]
    wait_until(lambda: tasks_of(sqs, dead)[0]["Status"] == "COMPLETED")

    assert received["Attributes"]["DeadLetterQueueSourceArn"] == ARN + name_of(url)
    assert handle
    [task] = tasks_of(sqs, dead, 1)
    assert task.pop("StartedTimestamp") > 1_700_000_000_000
    assert task == {
        "Status": "COMPLETED",
        "SourceArn": ARN + name_of(dead),
        "ApproximateNumberOfMessagesMoved": 2,
        "ApproximateNumberOfMessagesToMove": 2,
    }
    found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"])
    assert [each["Body"] for each in found["Messages"]] == ["a", "b"]
    assert "DeadLetterQueueSourceArn" not in found["Messages"][0]["Attributes"]
    assert refused(sqs.cancel_message_move_task, TaskHandle=handle) == (
        "AWS.SimpleQueueService.UnsupportedOperation"
    )


def test_a_task_that_fails_says_why(sqs: Any) -> None:
    _, dead = make_dead(sqs)
    sqs.send_message(QueueUrl=dead, MessageBody="never died")

    sqs.start_message_move_task(SourceArn=ARN + name_of(dead))
    wait_until(lambda: tasks_of(sqs, dead)[0]["Status"] == "FAILED")

    assert tasks_of(sqs, dead)[0]["FailureReason"] == "CouldNotDetermineMessageSource"


def test_a_task_with_a_rate_is_listed_and_can_be_cancelled(gateway: Server, sqs: Any) -> None:
    url, dead = make_dead(sqs)
    other = make_url(sqs)
    bury(sqs, url, dead, "a", "b", "c", "d")
    arns = {"SourceArn": ARN + name_of(dead), "DestinationArn": ARN + name_of(other)}

    handle = sqs.start_message_move_task(**arns, MaxNumberOfMessagesPerSecond=1)["TaskHandle"]
    [task] = tasks_of(sqs, dead)
    again = refused(sqs.start_message_move_task, SourceArn=arns["SourceArn"])
    said = json.loads(base64.b64decode(handle, validate=True))
    of_elsewhere = {**said, "sourceArn": f"arn:aws:sqs:eu-west-3:123456789012:{name_of(dead)}"}
    sqs.cancel_message_move_task(TaskHandle=pack(of_elsewhere))
    wait_until(lambda: tasks_of(sqs, dead)[0]["Status"] == "CANCELLED")

    assert (task["Status"], task["TaskHandle"]) == ("RUNNING", handle)
    assert (sorted(said), said["sourceArn"]) == (["sourceArn", "taskId"], arns["SourceArn"])
    assert (task["DestinationArn"], task["MaxNumberOfMessagesPerSecond"]) == (
        arns["DestinationArn"], 1,
    )  # fmt: skip
    assert again == "InvalidParameterValue"
    assert ready_in(sqs, dead) + ready_in(sqs, other) == 4
    assert ready_in(sqs, dead) >= 1


def test_a_task_without_room_for_its_cancellation_names_the_way_out(
    gateway: Server, sqs: Any
) -> None:
    """A person took away the note that keeps the room, and filled the settings."""
    url, dead = make_dead(sqs)
    bury(sqs, url, dead, *map(str, range(20)))
    handle = sqs.start_message_move_task(
        SourceArn=ARN + name_of(dead), MaxNumberOfMessagesPerSecond=1
    )["TaskHandle"]
    edited = gateway.root.with_name("settings")
    edited.write_text(full_of_notes(json.loads(base64.b64decode(handle))["taskId"]))
    edited.replace(gateway.root / "queues" / name_of(dead) / ".settings")

    told = ask_both(gateway, "CancelMessageMoveTask", {"TaskHandle": handle})

    assert [each.code for each in told] == ["AWS.SimpleQueueService.UnsupportedOperation"] * 2
    assert all(b"take a tag or a note" in each.body for each in told)
    sqs.untag_queue(QueueUrl=dead, TagKeys=["own"])
    sqs.cancel_message_move_task(TaskHandle=handle)
    wait_until(lambda: tasks_of(sqs, dead)[0]["Status"] == "CANCELLED")


def test_a_task_that_settings_have_no_room_for_is_refused_with_the_way_out(
    gateway: Server, sqs: Any
) -> None:
    _, dead = make_dead(sqs)
    settings = gateway.root / "queues" / name_of(dead) / ".settings"
    settings.write_text(full_of_notes("old", TaskStatus.COMPLETED))

    told = ask_both(gateway, "StartMessageMoveTask", {"SourceArn": ARN + name_of(dead)})
    told += ask_both(gateway, "TagQueue", {"QueueUrl": dead, "Tags": {"more": "x"}})

    for each in told:
        assert (each.status, each.code) == (400, "InvalidParameterValue")
        assert f"queue {name_of(dead)}: its settings would have".encode() in each.body
        assert b"take a tag or a note" in each.body
    sqs.untag_queue(QueueUrl=dead, TagKeys=["own"])
    sqs.start_message_move_task(SourceArn=ARN + name_of(dead))


def test_dead_letters_of_the_servers_own_flag_are_redriven_too(gateway: Server, sqs: Any) -> None:
    """A queue `X.dead` is one for dead letters without a policy that says so."""
    url = make_url(sqs)
    (gateway.root / "queues" / f"{name_of(url)}.dead").mkdir()

    sqs.start_message_move_task(SourceArn=f"{ARN}{name_of(url)}.dead")

    wait_until(lambda: tasks_of(sqs, f"{url}.dead")[0]["Status"] == "COMPLETED")


@pytest.mark.parametrize("is_told", [False, True])
def test_messages_that_would_be_removed_at_once_are_not_moved(
    gateway: Server, sqs: Any, is_told: bool
) -> None:
    """They are older than the queue that they go to keeps messages; with Amazon their age would
    begin again."""
    url, dead = make_dead(sqs)
    bury(sqs, url, dead, "a")
    settings = gateway.root / "queues" / name_of(url) / ".settings"
    kept = settings.read_text().replace("ttl=345600", "ttl=0.001")
    settings.write_text(kept)
    task = {"SourceArn": ARN + name_of(dead)}
    if is_told:
        task["DestinationArn"] = ARN + name_of(url)

    told = ask_both(gateway, "StartMessageMoveTask", task)

    for each in told:
        assert each.code == "AWS.SimpleQueueService.UnsupportedOperation"
        assert f"MessageRetentionPeriod of {name_of(url)}" in each.message
    assert (ready_in(sqs, dead), tasks_of(sqs, dead)) == (1, [])
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"MessageRetentionPeriod": "60"})
    sqs.start_message_move_task(**task)
    wait_until(lambda: ready_in(sqs, url) == 1)


def test_what_cannot_be_moved_is_refused(gateway: Server, sqs: Any) -> None:
    url, dead = make_dead(sqs)
    gone = {"SourceArn": ARN + "gone"}
    start = "StartMessageMoveTask"
    cases: list[tuple[str, dict[str, Any], str]] = [
        (start, gone, "ResourceNotFoundException"),
        (start, {"SourceArn": ARN + name_of(dead), "DestinationArn": ARN + "gone"},
         "ResourceNotFoundException"),
        (start, {"SourceArn": ARN + name_of(dead), "DestinationArn": ARN + name_of(dead)},
         "InvalidParameterValue"),
        (start, {"SourceArn": ARN + name_of(url)}, "InvalidParameterValue"),
        (start, {"SourceArn": url}, "InvalidParameterValue"),
        (start, {"SourceArn": ARN + name_of(dead), "MaxNumberOfMessagesPerSecond": 501},
         "InvalidParameterValue"),
        (start, {"SourceArn": ARN + name_of(dead), "MaxNumberOfMessagesPerSecond": 0},
         "InvalidParameterValue"),
        (start, {}, "MissingParameter"),
        ("ListMessageMoveTasks", gone, "ResourceNotFoundException"),
        ("ListMessageMoveTasks", {"SourceArn": ARN + name_of(dead), "MaxResults": 11},
         "InvalidParameterValue"),
        ("CancelMessageMoveTask", {"TaskHandle": "x"}, "InvalidParameterValue"),
        *(("CancelMessageMoveTask", {"TaskHandle": pack(said)}, "InvalidParameterValue")
          for said in ({"taskId": "a", "sourceArn": 5}, {"taskId": 5, "sourceArn": ARN + "gone"},
                       {"taskId": "a", "sourceArn": "gone"}, {"taskId": "a"}, ["taskId"], 5)),
        ("CancelMessageMoveTask", {"TaskHandle": pack({"taskId": "a", "sourceArn": ARN + "gone"})},
         "ResourceNotFoundException"),
        ("CancelMessageMoveTask",
         {"TaskHandle": pack({"taskId": "a", "sourceArn": ARN + name_of(dead)})},
         "ResourceNotFoundException"),
    ]  # fmt: skip
    for operation, values, code in cases:
        for told in ask_both(gateway, operation, values):
            assert told.code == code, (operation, values, told)
            assert 400 <= told.status < 500
    assert tasks_of(sqs, dead) == []


@pytest.mark.parametrize("operation", ["StartMessageMoveTask", "ListMessageMoveTasks"])
def test_a_source_that_somebody_else_has_just_deleted_is_not_found(
    gateway: Server, sqs: Any, operation: str
) -> None:
    _, dead = make_dead(sqs)
    assert tasks_of(sqs, dead) == []  # For half a second the gateway does not look again.

    shutil.rmtree(gateway.root / "queues" / name_of(dead))

    for told in ask_both(gateway, operation, {"SourceArn": ARN + name_of(dead)}):
        assert told.code == "ResourceNotFoundException", told
