"""Attributes of a queue as settings, and back."""

from __future__ import annotations

import json

import pytest

from mq.names import QueueName
from mq.spool.queue.queue_settings import NO_SETTINGS, QueueSettings, change, parse_settings
from mq_sqs.faults import SQSError
from mq_sqs.queues.addresses import Addressing
from mq_sqs.queues.queue_attributes import (
    attributes_of,
    changes_of,
    find_conflict,
    number_of,
)
from mq_sqs.queues.redrive_policies import DeadLetters, dead_letters_of

ORDERS = QueueName("orders")
ARN = "arn:aws:sqs:us-east-1:000000000000:"
POLICY = json.dumps({"deadLetterTargetArn": ARN + "dead", "maxReceiveCount": "3"})


def settings_with(**attributes: str) -> QueueSettings:
    return change(ORDERS, NO_SETTINGS, changes_of(ORDERS, attributes))


def shown(settings: QueueSettings) -> dict[str, str]:
    return attributes_of(ORDERS, settings, 30, Addressing())


def test_attributes_that_mq_has_are_its_settings() -> None:
    settings = settings_with(
        VisibilityTimeout="60", DelaySeconds="5", MessageRetentionPeriod="60", RedrivePolicy=POLICY,
        ReceiveMessageWaitTimeSeconds="20", MaximumMessageSize="1024",
    )  # fmt: skip

    assert settings.document() == {
        "visibility": 60, "delay": 5, "ttl": 60, "max-receives": 3, "dead-letters": "dead",
        "sqs.max-size": "1024", "sqs.wait": "20",
    }  # fmt: skip
    assert shown(settings).items() >= {
        "VisibilityTimeout": "60", "DelaySeconds": "5", "MessageRetentionPeriod": "60",
        "ReceiveMessageWaitTimeSeconds": "20", "MaximumMessageSize": "1024",
    }.items()  # fmt: skip
    assert json.loads(shown(settings)["RedrivePolicy"]) == {
        "deadLetterTargetArn": ARN + "dead",
        "maxReceiveCount": 3,
    }
    assert parse_settings(ORDERS, settings.text()) == settings


def test_a_visibility_timeout_of_zero_is_kept_and_ends() -> None:
    zero = settings_with(VisibilityTimeout="0")

    assert number_of(zero, "VisibilityTimeout", 30) == 0
    assert zero.visibility_seconds is None
    after = change(ORDERS, zero, changes_of(ORDERS, {"VisibilityTimeout": "7"}))
    assert after.document() == {"visibility": 7}


def test_a_queue_that_says_nothing_shows_what_counts() -> None:
    assert shown(NO_SETTINGS) == {
        "VisibilityTimeout": "30", "DelaySeconds": "0", "MessageRetentionPeriod": "1209600",
        "MaximumMessageSize": "1048576", "ReceiveMessageWaitTimeSeconds": "0",
        "QueueArn": ARN + "orders", "SqsManagedSseEnabled": "false",
    }  # fmt: skip


def test_seconds_that_are_not_whole_are_rounded_up() -> None:
    assert shown(change(ORDERS, NO_SETTINGS, {"delay": "0.5"}))["DelaySeconds"] == "1"


@pytest.mark.parametrize("text", ["x", "-1", "99", "1e1", "1" * 30])
def test_a_note_that_a_person_spoilt_counts_as_none(text: str) -> None:
    settings = change(ORDERS, NO_SETTINGS, {"sqs.wait": text})

    assert shown(settings)["ReceiveMessageWaitTimeSeconds"] == "0"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("VisibilityTimeout", "43201"), ("VisibilityTimeout", "-1"), ("VisibilityTimeout", ""),
        ("VisibilityTimeout", "1.5"), ("DelaySeconds", "901"), ("MaximumMessageSize", "1023"),
        ("MaximumMessageSize", "1048577"), ("MessageRetentionPeriod", "59"),
        ("MessageRetentionPeriod", "1209601"), ("ReceiveMessageWaitTimeSeconds", "21"),
        ("DelaySeconds", "\u0661"), ("DelaySeconds", "9" * 5000), ("Policy", "{}"),
        ("KmsMasterKeyId", "alias/aws/sqs"), ("KmsDataKeyReusePeriodSeconds", "59"),
        ("SqsManagedSseEnabled", "true"), ("FifoQueue", "x"),
        ("RedriveAllowPolicy", '{"redrivePermission": "some"}'),
        ("RedriveAllowPolicy", '{"redrivePermission": "byQueue"}'),
        ("RedriveAllowPolicy", '{"redrivePermission": "denyAll", "sourceQueueArns": []}'),
        ("RedriveAllowPolicy", '{"redrivePermission": "byQueue", "sourceQueueArns": ["x"]}'),
        ("RedriveAllowPolicy", '{"redrivePermission": "byQueue", "sourceQueueArns": [1]}'),
    ],
)  # fmt: skip
def test_a_value_that_is_not_possible_is_refused(name: str, text: str) -> None:
    with pytest.raises(SQSError, match=f"parameter {name}. Reason: .") as refused:
        changes_of(ORDERS, {name: text})

    assert refused.value.fault.name == "InvalidAttributeValue"


@pytest.mark.parametrize(
    "name",
    ["QueueArn", "CreatedTimestamp", "All", "Sqs", "visibility", "FifoQueue",
     "ContentBasedDeduplication"],
)  # fmt: skip
def test_an_attribute_that_cannot_be_set_is_refused(name: str) -> None:
    with pytest.raises(SQSError, match=f"Unknown Attribute {name}.") as refused:
        changes_of(ORDERS, {name: "true"})

    assert refused.value.fault.name == "InvalidAttributeName"


def test_what_says_only_what_is_so_is_taken() -> None:
    values = {"Policy": "", "KmsMasterKeyId": "", "SqsManagedSseEnabled": "false",
              "KmsDataKeyReusePeriodSeconds": "300", "FifoQueue": "false"}  # fmt: skip

    assert changes_of(ORDERS, values) == {}


@pytest.mark.parametrize("text", ["", "60", "86400"])
def test_how_long_a_key_is_used_changes_nothing_without_a_key(text: str) -> None:
    """Terraform sends it to queues that have no key, where Amazon neither refuses nor shows it."""
    assert changes_of(ORDERS, {"KmsDataKeyReusePeriodSeconds": text}) == {}


def test_an_empty_policy_takes_it_away() -> None:
    settings = settings_with(
        RedrivePolicy=POLICY, RedriveAllowPolicy='{"redrivePermission":"denyAll"}'
    )
    empty = {"RedrivePolicy": "", "RedriveAllowPolicy": "{}"}

    assert dead_letters_of(ORDERS, settings) == DeadLetters(QueueName("dead"), 3)
    assert change(ORDERS, settings, changes_of(ORDERS, empty)).document() == {}


def test_a_queue_of_the_gateway_conflicts_with_any_other_value() -> None:
    made = change(ORDERS, settings_with(RedrivePolicy=POLICY), {"sqs.created": "1", "ttl": "60"})

    assert find_conflict(ORDERS, {"RedrivePolicy": POLICY.replace('"3"', "3")}, made, 30) is None
    assert (
        find_conflict(ORDERS, {"DelaySeconds": "00", "VisibilityTimeout": "30"}, made, 30) is None
    )
    assert find_conflict(ORDERS, {"DelaySeconds": "1"}, made, 30) == "DelaySeconds"
    assert find_conflict(ORDERS, {"RedrivePolicy": ""}, made, 30) == "RedrivePolicy"


def test_an_allow_policy_in_another_order_is_the_same() -> None:
    arns = f'"sourceQueueArns": ["{ARN}orders"]'
    texts = [
        f'{{"redrivePermission": "byQueue", {arns}}}',
        f'{{{arns}, "redrivePermission": "byQueue"}}',
    ]
    for text in texts:
        made = change(ORDERS, settings_with(RedriveAllowPolicy=text), {"sqs.created": "1"})
        for each in texts:
            assert find_conflict(ORDERS, {"RedriveAllowPolicy": each}, made, 30) is None


def test_a_queue_made_elsewhere_conflicts_where_it_says_something_else() -> None:
    made = change(ORDERS, NO_SETTINGS, {"delay": "5"})

    assert find_conflict(ORDERS, {"DelaySeconds": "5", "VisibilityTimeout": "9"}, made, 30) is None
    assert find_conflict(ORDERS, {"DelaySeconds": "6"}, made, 30) == "DelaySeconds"
