"""DeleteMessage, ChangeMessageVisibility, and their batches."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.gateways import make_url, name_of, nobodys_handle


def take(sqs: Any, url: str, number: int = 1, **values: Any) -> list[str]:
    """Return the handles of `number` messages, sent and received."""
    for at in range(number):
        sqs.send_message(QueueUrl=url, MessageBody=str(at))
    return handles(sqs, url, **values)


def handles(sqs: Any, url: str, **values: Any) -> list[str]:
    received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, **values)
    return [each["ReceiptHandle"] for each in received.get("Messages", [])]


def change(sqs: Any, url: str, handle: str, seconds: int) -> None:
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=seconds)


def is_empty(sqs: Any, url: str) -> bool:
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return all(value == "0" for name, value in attributes.items() if "NumberOfMessages" in name)


def test_a_deleted_message_is_gone_and_deleting_it_again_is_a_success(sqs: Any, url: str) -> None:
    [handle] = take(sqs, url)

    for _ in range(2):
        sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)

    assert is_empty(sqs, url)


def test_an_older_handle_removes_nothing_and_is_a_success(sqs: Any, url: str) -> None:
    [older] = take(sqs, url, VisibilityTimeout=0)
    [newer] = handles(sqs, url)

    sqs.delete_message(QueueUrl=url, ReceiptHandle=older)
    assert not is_empty(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=newer)
    assert is_empty(sqs, url)


def test_a_handle_works_while_nobody_else_has_received_the_message(sqs: Any, url: str) -> None:
    [handle] = take(sqs, url)
    change(sqs, url, handle, 0)

    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)

    assert is_empty(sqs, url)


@pytest.mark.parametrize("kind", ["standard", "fifo"])
def test_a_handle_removes_no_dead_letter_and_is_a_success(sqs: Any, kind: str) -> None:
    own = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if kind == "fifo" else {}
    dead = make_url(sqs, **own)
    arn = f"arn:aws:sqs:us-east-1:000000000000:{name_of(dead)}"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = make_url(sqs, RedrivePolicy=policy, **own)
    group = {"MessageGroupId": "a"} if own else {}
    sqs.send_message(QueueUrl=url, MessageBody="1", **group)
    [handle] = handles(sqs, url)
    change(sqs, url, handle, 0)

    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)

    assert is_empty(sqs, url)
    assert len(handles(sqs, dead)) == 1


def test_a_handle_of_no_message_removes_nothing(sqs: Any, url: str) -> None:
    sqs.delete_message(QueueUrl=url, ReceiptHandle=nobodys_handle(url))
    for call in (sqs.delete_message, lambda **values: change(sqs, url, "x", 1)):
        with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid):
            call(QueueUrl=url, ReceiptHandle="x")


def test_a_handle_of_another_queue_is_invalid_and_removes_nothing(sqs: Any, url: str) -> None:
    [handle] = take(sqs, url)
    other = make_url(sqs)

    with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid):
        sqs.delete_message(QueueUrl=other, ReceiptHandle=handle)
    with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid):
        change(sqs, other, handle, 0)

    change(sqs, url, handle, 0)
    assert len(handles(sqs, url)) == 1


def test_a_batch_of_deletions_says_of_each_how_it_went(sqs: Any, url: str) -> None:
    first, second = take(sqs, url, 2)

    done = sqs.delete_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "a", "ReceiptHandle": first},
            {"Id": "b", "ReceiptHandle": "nonsense"},
            {"Id": "c", "ReceiptHandle": nobodys_handle(url)},
            {"Id": "d", "ReceiptHandle": second},
        ],
    )

    assert [each["Id"] for each in done["Successful"]] == ["a", "c", "d"]
    assert [(each["Id"], each["Code"]) for each in done["Failed"]] == [
        ("b", "ReceiptHandleIsInvalid")
    ]
    assert is_empty(sqs, url)


@pytest.mark.parametrize("kind", ["standard", "fifo"])
def test_a_batch_of_handles_that_are_all_invalid_fails_in_each(sqs: Any, kind: str) -> None:
    url = make_url(sqs, **({"FifoQueue": "true"} if kind == "fifo" else {}))
    entries = [{"Id": each, "ReceiptHandle": "nonsense"} for each in "ab"]

    done = sqs.delete_message_batch(QueueUrl=url, Entries=entries)

    assert "Successful" not in done
    assert [(each["Id"], each["Code"]) for each in done["Failed"]] == [
        ("a", "ReceiptHandleIsInvalid"),
        ("b", "ReceiptHandleIsInvalid"),
    ]


def test_a_message_is_hidden_for_longer(sqs: Any, url: str) -> None:
    [handle] = take(sqs, url, VisibilityTimeout=2)

    change(sqs, url, handle, 43_200)

    assert handles(sqs, url, WaitTimeSeconds=3) == []
    change(sqs, url, handle, 0)
    assert len(handles(sqs, url)) == 1


def test_the_visibility_of_what_came_back_cannot_be_changed(sqs: Any, url: str) -> None:
    [older] = take(sqs, url)
    change(sqs, url, older, 0)

    with pytest.raises(sqs.exceptions.MessageNotInflight):
        change(sqs, url, older, 5)
    [newer] = handles(sqs, url)
    with pytest.raises(sqs.exceptions.MessageNotInflight):
        change(sqs, url, older, 5)
    change(sqs, url, newer, 5)


def test_the_visibility_of_what_is_gone_is_a_wrong_parameter(sqs: Any, url: str) -> None:
    """Amazon says so, though its model has MessageNotInflight for it."""
    [removed] = take(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=removed)

    for handle in (removed, nobodys_handle(url)):
        told = f"Value {re.escape(handle)} for .*not available"
        with pytest.raises(ClientError, match=told) as refused:
            change(sqs, url, handle, 5)
        assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"


@pytest.mark.parametrize("is_quick", [True, False])
def test_an_older_handle_of_a_fifo_queue_is_refused(sqs: Any, is_quick: bool) -> None:
    """A standard queue answers it with a success, and removes nothing."""
    url = make_url(sqs, FifoQueue="true", ContentBasedDeduplication="true")
    sqs.send_message(QueueUrl=url, MessageBody="a", MessageGroupId="a")
    [older] = handles(sqs, url)
    change(sqs, url, older, 0)
    [newer] = handles(sqs, url)
    # What is large goes the usual way.
    queue = url if is_quick else url + "/" * 70_000

    with pytest.raises(ClientError, match="handle has expired") as refused:
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=older)
    batch = sqs.delete_message_batch(QueueUrl=queue, Entries=[{"Id": "a", "ReceiptHandle": older}])

    assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"
    assert "Successful" not in batch
    assert [each["Code"] for each in batch["Failed"]] == ["InvalidParameterValue"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=newer)
    assert is_empty(sqs, url)


@pytest.mark.parametrize("seconds", [-1, 43_201])
def test_a_visibility_outside_its_limits_is_refused(sqs: Any, url: str, seconds: int) -> None:
    with pytest.raises(ClientError, match="VisibilityTimeout is invalid"):
        change(sqs, url, nobodys_handle(url), seconds)


def test_a_batch_of_changes_says_of_each_how_it_went(sqs: Any, url: str) -> None:
    first, second = take(sqs, url, 2)

    done = sqs.change_message_visibility_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "a", "ReceiptHandle": first, "VisibilityTimeout": 0},
            {"Id": "b", "ReceiptHandle": nobodys_handle(url), "VisibilityTimeout": 1},
            {"Id": "c", "ReceiptHandle": second, "VisibilityTimeout": 43_201},
            {"Id": "d", "ReceiptHandle": second},
            {"Id": "e", "ReceiptHandle": "x", "VisibilityTimeout": 1},
        ],
    )

    assert [each["Id"] for each in done["Successful"]] == ["a"]
    assert {each["Id"]: each["Code"].rpartition(".")[2] for each in done["Failed"]} == {
        "b": "ReceiptHandleIsInvalid",
        "c": "InvalidParameterValue",
        "d": "MissingParameter",
        "e": "ReceiptHandleIsInvalid",
    }
    assert len(handles(sqs, url)) == 1


def test_in_a_batch_the_handle_of_what_is_gone_is_invalid(sqs: Any, url: str) -> None:
    """Amazon's answer differs from that of the single operation. gocloud.dev ignores this code, so
    that a message may be released after it has been deleted."""
    removed, older = take(sqs, url, 2)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=removed)
    change(sqs, url, older, 0)

    entries = [
        {"Id": str(at), "ReceiptHandle": each, "VisibilityTimeout": 1}
        for at, each in enumerate([removed, older])
    ]
    done = sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries)

    assert [each["Code"] for each in done["Failed"]] == [
        "ReceiptHandleIsInvalid",
        "AWS.SimpleQueueService.MessageNotInflight",
    ]
    assert all("not available for visibility" in each["Message"] for each in done["Failed"])


def test_a_batch_for_a_queue_that_is_not_there_fails_as_a_whole(sqs: Any) -> None:
    url = make_url(sqs)
    sqs.delete_queue(QueueUrl=url)
    entry = {"Id": "a", "ReceiptHandle": nobodys_handle(url)}

    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.delete_message_batch(QueueUrl=url, Entries=[entry])
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.change_message_visibility_batch(
            QueueUrl=url, Entries=[{**entry, "VisibilityTimeout": 1}]
        )
