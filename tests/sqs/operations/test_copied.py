"""What is sent to a queue whose setting `also` names others, as a topic of SNS has its queues."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.gateways import make_url, name_of
from tests.support.processes import Server

ATTRIBUTES = {"kind": {"DataType": "String", "StringValue": "tea"}}


@pytest.fixture
def urls(gateway: Server, sqs: Any) -> list[str]:
    """Three queues; what is sent to the first goes to the others too."""
    others = [make_url(sqs) for _ in range(2)]
    name = f"first-{name_of(others[0])}"
    folder = gateway.root / "queues" / name
    folder.mkdir()
    (folder / ".settings").write_text(f"also={','.join(map(name_of, others))}\n")
    return [sqs.get_queue_url(QueueName=name)["QueueUrl"], *others]


def received(sqs: Any, url: str) -> list[tuple[str, str]]:
    found = []
    while messages := sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    ).get("Messages"):
        assert [each["MessageAttributes"] for each in messages] == [ATTRIBUTES] * len(messages)
        found += [(each["MessageId"], each["Body"]) for each in messages]
    return found


@pytest.mark.parametrize("size", [4, 200_000])
def test_each_queue_gets_what_is_sent(sqs: Any, urls: list[str], size: int) -> None:
    body = "x" * size
    sent = [
        sqs.send_message(QueueUrl=urls[0], MessageBody=body, MessageAttributes=ATTRIBUTES)
        for _ in range(3)
    ]
    entries = [{"Id": each, "MessageBody": body, "MessageAttributes": ATTRIBUTES} for each in "abc"]
    sent += sqs.send_message_batch(QueueUrl=urls[0], Entries=entries)["Successful"]

    expected = [(each["MessageId"], body) for each in sent]
    assert [received(sqs, url) for url in urls] == [expected] * 3


def test_a_gateway_keeps_the_setting(gateway: Server, sqs: Any, urls: list[str]) -> None:
    sqs.set_queue_attributes(QueueUrl=urls[0], Attributes={"VisibilityTimeout": "60"})

    sqs.send_message(QueueUrl=urls[0], MessageBody="a", MessageAttributes=ATTRIBUTES)

    assert [len(received(sqs, url)) for url in urls] == [1] * 3
    sqs.delete_queue(QueueUrl=urls[2])
    sqs.send_message(QueueUrl=urls[0], MessageBody="b", MessageAttributes=ATTRIBUTES)
    assert [body for url in urls[:2] for _, body in received(sqs, url)] == ["b"] * 2
    with pytest.raises(ClientError):
        sqs.get_queue_attributes(QueueUrl=urls[2])
