"""ReceiveMessage."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.gateways import client_of, make_url, name_of
from tests.support.messages import write_message
from tests.support.processes import Process, Server
from tests.support.wire import Wire, request_bytes

SYSTEM = {"SenderId", "SentTimestamp", "ApproximateReceiveCount",
          "ApproximateFirstReceiveTimestamp"}  # fmt: skip


def receive(sqs: Any, url: str, **values: Any) -> list[dict[str, Any]]:
    return list(sqs.receive_message(QueueUrl=url, **values).get("Messages", []))


def test_an_empty_queue_gives_nothing(sqs: Any, url: str) -> None:
    assert "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0)


def test_up_to_ten_come_in_the_order_they_were_sent(sqs: Any, url: str) -> None:
    for at in range(12):
        sqs.send_message(QueueUrl=url, MessageBody=str(at))

    first = receive(sqs, url, MaxNumberOfMessages=10)

    assert [each["Body"] for each in first] == [str(at) for at in range(10)]
    assert [each["Body"] for each in receive(sqs, url)] == ["10"]


def test_the_attributes_that_are_asked_for_come_along(sqs: Any, url: str) -> None:
    before = time.time_ns() // 10**6
    sqs.send_message(QueueUrl=url, MessageBody="a")

    [message] = receive(sqs, url, AttributeNames=["All"], VisibilityTimeout=0)
    attributes = message["Attributes"]
    assert attributes.keys() == SYSTEM
    assert before <= int(attributes["SentTimestamp"]) <= time.time_ns() // 10**6
    assert attributes["ApproximateReceiveCount"] == "1"
    [message] = receive(
        sqs, url, MessageSystemAttributeNames=["ApproximateReceiveCount"], VisibilityTimeout=0
    )
    assert message["Attributes"] == {"ApproximateReceiveCount": "2"}
    [message] = receive(sqs, url, AttributeNames=["All"], VisibilityTimeout=0)
    name = "ApproximateFirstReceiveTimestamp"
    assert message["Attributes"][name] == attributes[name]
    assert "Attributes" not in receive(sqs, url)[0]


def test_of_system_attributes_an_unknown_name_is_passed_over(sqs: Any, url: str) -> None:
    """Amazon refuses it in the older list alone."""
    sqs.send_message(QueueUrl=url, MessageBody="a")

    with pytest.raises(ClientError, match="Unknown Attribute"):
        receive(sqs, url, AttributeNames=["Nonsense"])
    [message] = receive(sqs, url, MessageSystemAttributeNames=["Nonsense"])

    assert "Attributes" not in message


def test_a_producer_over_http_does_not_say_when_a_message_was_sent(
    gateway: Server, sqs: Any, url: str, tmp_path: Path, processes: list[Process]
) -> None:
    written = {"SentTimestamp": "1", "SenderId": "me", "Other": "x", "MessageGroupId": "table-7"}
    system = json.dumps({name: ["String", text] for name, text in written.items()})
    before = time.time_ns() // 10**6
    server = Server(gateway.root, log=tmp_path / "http.log")
    processes.append(server)
    with closing(Wire(server.port)) as wire:
        wire.publish(name_of(url), b"a", x_meta_sqs_system=system)

    [message] = receive(sqs, url, AttributeNames=["All"], WaitTimeSeconds=20)

    attributes = message["Attributes"]
    assert attributes.keys() == SYSTEM | {"MessageGroupId"}
    assert attributes["MessageGroupId"] == "table-7"
    assert int(attributes["SentTimestamp"]) >= before
    assert attributes["SenderId"] != "me"


def test_a_visibility_timeout_of_zero_leaves_the_message_there(sqs: Any, url: str) -> None:
    never = make_url(sqs, VisibilityTimeout="0")
    for each in (url, never):
        sqs.send_message(QueueUrl=each, MessageBody="a")

    first, second = receive(sqs, url, VisibilityTimeout=0), receive(sqs, url, VisibilityTimeout=0)
    assert first[0]["ReceiptHandle"] != second[0]["ReceiptHandle"]
    assert receive(sqs, never)
    [last] = receive(sqs, never)
    sqs.delete_message(QueueUrl=never, ReceiptHandle=last["ReceiptHandle"])
    assert receive(sqs, never) == []


def test_a_message_comes_back_after_its_visibility_timeout(sqs: Any) -> None:
    url = make_url(sqs, VisibilityTimeout="1")
    sqs.send_message(QueueUrl=url, MessageBody="a")
    [first] = receive(sqs, url)

    [second] = receive(sqs, url, WaitTimeSeconds=20)

    assert first["MessageId"] == second["MessageId"]
    assert first["ReceiptHandle"] != second["ReceiptHandle"]


@pytest.mark.parametrize("by", ["request", "queue"])
def test_a_long_poll_gets_what_is_sent_meanwhile(gateway: Server, sqs: Any, by: str) -> None:
    url = make_url(sqs, ReceiveMessageWaitTimeSeconds="20" if by == "queue" else "0")
    found: list[dict[str, Any]] = []
    wait = {"WaitTimeSeconds": 20} if by == "request" else {}
    poll = threading.Thread(target=lambda: found.extend(receive(client_of(gateway), url, **wait)))
    poll.start()

    sqs.send_message(QueueUrl=url, MessageBody="a")
    poll.join(10)

    assert [each["Body"] for each in found] == ["a"]


def test_a_long_poll_ends_when_its_queue_is_deleted(gateway: Server, sqs: Any, url: str) -> None:
    with closing(Wire(gateway.port)) as wire:
        body = json.dumps({"QueueUrl": url, "WaitTimeSeconds": 20}).encode()
        target = {"x_amz_target": "AmazonSQS.ReceiveMessage"}
        wire.send(request_bytes("POST", "/", body, **target))
        sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])

        sqs.delete_queue(QueueUrl=url)

        answer = wire.answer("POST")
    assert (answer.status, answer.json()["__type"]) == (400, "com.amazonaws.sqs#QueueDoesNotExist")


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_message_that_was_received_too_often_is_a_dead_letter(sqs: Any, is_deleted: bool) -> None:
    """A queue for dead letters that was deleted is made again."""
    dead = make_url(sqs)
    arn = f"arn:aws:sqs:us-east-1:000000000000:{name_of(dead)}"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    url = make_url(sqs, RedrivePolicy=policy)
    sent = sqs.send_message(QueueUrl=url, MessageBody="a")
    if is_deleted:
        sqs.delete_queue(QueueUrl=dead)

    for _ in range(2):
        [message] = receive(sqs, url)
        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
        )

    assert receive(sqs, url) == []
    [letter] = receive(sqs, dead, AttributeNames=["All"])
    assert (letter["MessageId"], letter["Body"]) == (sent["MessageId"], "a")


@pytest.mark.parametrize("body", [b"\xff\xfe", b"\0", "\uffff".encode(), b"\x80" * 600_000])
def test_a_body_that_sqs_cannot_say_comes_in_base64(
    gateway: Server, sqs: Any, url: str, body: bytes
) -> None:
    write_message(gateway.root / "queues" / name_of(url) / "own-id", body)

    [message] = receive(sqs, url, WaitTimeSeconds=5)

    assert base64.b64decode(message["Body"]) == body
    assert message["MD5OfBody"] == hashlib.md5(message["Body"].encode()).hexdigest()
    assert message["MessageId"] == "own-id"


def test_a_client_that_leaves_its_poll_takes_no_message_along(
    gateway: Server, sqs: Any, url: str
) -> None:
    wire = Wire(gateway.port)
    body = json.dumps({"QueueUrl": url, "WaitTimeSeconds": 20}).encode()
    wire.send(
        b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body),
        body,
    )
    ask_counts = {"QueueUrl": url, "AttributeNames": ["ApproximateNumberOfMessages"]}
    sqs.get_queue_attributes(**ask_counts)
    wire.close()

    sqs.send_message(QueueUrl=url, MessageBody="a")

    assert [each["Body"] for each in receive(sqs, url, WaitTimeSeconds=20)] == ["a"]


def test_what_an_attempt_was_answered_again_stays_in_flight(gateway: Server, sqs: Any) -> None:
    """The first client has closed its own direction, and then refuses the rest of its answer."""
    line = make_url(sqs, FifoQueue="true", ContentBasedDeduplication="true")
    for at in range(8):
        sqs.send_message(QueueUrl=line, MessageBody=str(at) * 10**6, MessageGroupId="a")
    attempt = {"QueueUrl": line, "MaxNumberOfMessages": 10, "ReceiveRequestAttemptId": "a"}
    first = Wire(gateway.port)
    body = json.dumps(attempt).encode()
    first.send(request_bytes("POST", "/", body, x_amz_target="AmazonSQS.ReceiveMessage"))
    first.socket.shutdown(socket.SHUT_WR)
    assert first.socket.recv(1)

    again = sqs.receive_message(**attempt)["Messages"]
    first.reset()

    assert len(again) == 8
    assert receive(sqs, line, WaitTimeSeconds=1) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("MaxNumberOfMessages", 0), ("MaxNumberOfMessages", 11), ("WaitTimeSeconds", -1),
     ("WaitTimeSeconds", 21), ("VisibilityTimeout", -1), ("VisibilityTimeout", 43_201)],
)  # fmt: skip
def test_a_number_outside_its_limits_is_refused(sqs: Any, url: str, name: str, value: int) -> None:
    with pytest.raises(ClientError, match=f"parameter {name} is invalid"):
        receive(sqs, url, **{name: value})
