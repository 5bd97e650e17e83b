"""Queues that a program declares, as Terraform does: it makes or changes a queue, and reads it
until each attribute is as declared. One that the gateway shows in another way keeps it waiting for
three minutes, and counts as failed then."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.gateways import ACCOUNT, make_url

DEAD = f"arn:aws:sqs:us-east-1:{ACCOUNT}:declared-dead"
POLICIES = ("RedrivePolicy", "RedriveAllowPolicy")
FIFO = {"FifoQueue": "true"}
NUMBERS = {
    "DelaySeconds": "90",
    "MaximumMessageSize": "2048",
    "MessageRetentionPeriod": "86400",
    "ReceiveMessageWaitTimeSeconds": "10",
    "VisibilityTimeout": "60",
}
WITHOUT_A_KEY = {"SqsManagedSseEnabled": "false", "KmsDataKeyReusePeriodSeconds": "60"}
REDRIVE = {"RedrivePolicy": f'{{\n  "maxReceiveCount": 3,\n  "deadLetterTargetArn": "{DEAD}"\n}}\n'}
ALLOWED = {
    "RedriveAllowPolicy": f'{{"sourceQueueArns": ["{DEAD}"], "redrivePermission": "byQueue"}}'
}
BY_GROUP = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}


def unlike(sqs: Any, url: str, declared: dict[str, str]) -> dict[str, str | None]:
    """Return what the queue shows in place of what was declared. An empty attribute is one that is
    not shown; the period of a key is shown with a key only."""
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert "KmsDataKeyReusePeriodSeconds" not in shown

    def is_as_declared(name: str, text: str) -> bool:
        if name == "KmsDataKeyReusePeriodSeconds":
            return True
        if text and name in POLICIES:
            return bool(json.loads(shown[name]) == json.loads(text))
        return bool(shown.get(name, "") == text)

    return {
        name: shown.get(name) for name, text in declared.items() if not is_as_declared(name, text)
    }


@pytest.mark.parametrize(
    "declared",
    [NUMBERS, {"VisibilityTimeout": "0"}, REDRIVE, ALLOWED, FIFO | WITHOUT_A_KEY,
     {"ContentBasedDeduplication": "true"} | FIFO, FIFO | BY_GROUP],
)  # fmt: skip
def test_a_queue_is_as_it_was_declared(sqs: Any, declared: dict[str, str]) -> None:
    sqs.create_queue(QueueName="declared-dead")

    url = make_url(sqs, **declared)

    assert unlike(sqs, url, declared) == {}


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (NUMBERS, {"DelaySeconds": "0", "VisibilityTimeout": "0"}),
        (REDRIVE | ALLOWED, {"RedrivePolicy": "", "RedriveAllowPolicy": ""}),
        ({}, WITHOUT_A_KEY | {"Policy": "", "KmsMasterKeyId": ""}),
        (FIFO, BY_GROUP),
        (FIFO | {"ContentBasedDeduplication": "true"}, {"ContentBasedDeduplication": "false"}),
    ],
)  # fmt: skip
def test_a_queue_is_as_it_was_declared_anew(
    sqs: Any, first: dict[str, str], then: dict[str, str]
) -> None:
    sqs.create_queue(QueueName="declared-dead")
    url = make_url(sqs, **first)

    sqs.set_queue_attributes(QueueUrl=url, Attributes=then)

    assert unlike(sqs, url, first | then) == {}
