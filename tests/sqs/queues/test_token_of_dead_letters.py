"""A token is for the queue that takes the dead letters too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.gateways import client_of
from tests.support.processes import Server
from tests.support.token_files import make_token_file

CHIEF, BOSS = "Hj0vVt9xkq3mP2sYw8LrBg", "boss/Vt9xkq3mP2sYw8LrBg+"


def _policy(sqs: Any, url: str) -> dict[str, str]:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    policy = {"deadLetterTargetArn": answer["Attributes"]["QueueArn"], "maxReceiveCount": "1"}
    return {"RedrivePolicy": json.dumps(policy)}


def test_a_bound_token_sends_no_dead_letters_to_other_queues(
    start_gateway: Callable[..., Server], tmp_path: Path
) -> None:
    """It could publish there otherwise."""
    tokens = make_token_file(
        tmp_path, f"chief read,admin orders* {CHIEF}", f"boss read,admin * {BOSS}"
    )
    server = start_gateway(f"--token-file={tokens}")
    boss, chief = (
        client_of(server, aws_access_key_id=name, aws_secret_access_key=secret)
        for name, secret in (("boss", BOSS), ("chief", CHIEF))
    )
    orders, failed, bills = (
        boss.create_queue(QueueName=name)["QueueUrl"]
        for name in ("orders", "orders-failed", "bills")
    )
    to_bills, absent = _policy(boss, bills), _policy(boss, bills)
    absent["RedrivePolicy"] = absent["RedrivePolicy"].replace("bills", "absent")

    for policy in (to_bills, absent):
        with pytest.raises(ClientError, match="AccessDenied"):
            chief.set_queue_attributes(QueueUrl=orders, Attributes=policy)
        with pytest.raises(ClientError, match="AccessDenied"):
            chief.create_queue(QueueName="orders-new", Attributes=policy)

    chief.set_queue_attributes(QueueUrl=orders, Attributes=_policy(boss, failed))
    boss.set_queue_attributes(QueueUrl=orders, Attributes=to_bills)
