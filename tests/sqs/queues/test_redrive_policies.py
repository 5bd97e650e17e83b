"""Redrive policies, and those that allow them."""

from __future__ import annotations

import json

import pytest

from mq.names import QueueName
from mq.spool.queue.queue_settings import NO_SETTINGS, QueueSettings, change
from mq_sqs.faults import SQSError
from mq_sqs.queues.queue_attributes import changes_of
from mq_sqs.queues.redrive_policies import DeadLetters, may_redrive, read_redrive_policy

ORDERS = QueueName("orders")
ARN = "arn:aws:sqs:us-east-1:000000000000:"
POLICY = json.dumps({"deadLetterTargetArn": ARN + "dead", "maxReceiveCount": "3"})


def settings_with(**attributes: str) -> QueueSettings:
    return change(ORDERS, NO_SETTINGS, changes_of(ORDERS, attributes))


@pytest.mark.parametrize("text", [POLICY, POLICY.replace('"3"', "3")])
def test_a_count_is_a_number_or_a_text(text: str) -> None:
    assert read_redrive_policy(text) == DeadLetters(QueueName("dead"), 3)


def test_an_empty_text_takes_the_policy_away() -> None:
    assert read_redrive_policy("") is None


LACKS = "Redrive policy does not contain mandatory attribute: "


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", "Redrive policy is not a valid JSON map."),
        ("[]", "Redrive policy is not a valid JSON map."),
        ("[" * 100_000, "Redrive policy is not a valid JSON map."),
        ("{}", f"{LACKS}maxReceiveCount."),
        ('{"maxReceiveCount": 3}', f"{LACKS}deadLetterTargetArn."),
        (POLICY.replace("3", "0"), "Invalid value for maxReceiveCount: 0, valid values are"),
        (POLICY.replace("3", "1001"), "from 1 to 1000 both inclusive."),
        (POLICY.replace('"3"', "true"), "Invalid value for maxReceiveCount"),
        (POLICY.replace(":sqs:", ":sns:"), "Invalid value for deadLetterTargetArn."),
        (POLICY.replace("}", ', "more": 1}'), "alone"),
    ],
    ids=lambda text: text[:40],
)
def test_a_wrong_policy_is_a_wrong_parameter(text: str, why: str) -> None:
    """Amazon says that of no other attribute, and that an empty object is wrong too."""
    with pytest.raises(SQSError, match=rf"^Value .* for parameter Redriv.*{why}") as refused:
        read_redrive_policy(text)

    assert refused.value.fault.code == "InvalidParameterValue"


@pytest.mark.parametrize(
    ("policy", "may"),
    [
        (None, True),
        ({"redrivePermission": "allowAll"}, True),
        ({"redrivePermission": "denyAll"}, False),
        ({"redrivePermission": "byQueue", "sourceQueueArns": [ARN + "orders"]}, True),
        ({"redrivePermission": "byQueue", "sourceQueueArns": [ARN + "others"]}, False),
    ],
)
def test_a_queue_chooses_whose_dead_letters_it_takes(
    policy: dict[str, object] | None, may: bool
) -> None:
    text = "" if policy is None else json.dumps(policy)

    assert may_redrive(ARN + "orders", settings_with(RedriveAllowPolicy=text)) is may


@pytest.mark.parametrize(
    "text", ["x", "[]", "5", '{"redrivePermission":"byQueue"}', '{"redrivePermission":["denyAll"]}',
             '{"redrivePermission":"byQueue","sourceQueueArns":5}'],
)  # fmt: skip
def test_an_allow_policy_that_a_person_has_spoiled_counts_as_none(text: str) -> None:
    assert may_redrive(ARN + "orders", QueueSettings(notes={"sqs.redrive-allow": text}))
