"""SendMessage without a task for each request: what clients see is the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support.gateways import UUID, ask_json, client_of, make_url, name_of
from tests.support.processes import Server
from tests.support.wire import Wire


def request_of(values: dict[str, Any], *more: bytes) -> bytes:
    body = json.dumps(values).encode()
    head = [b"POST / HTTP/1.1", b"Host: localhost", b"X-Amz-Target: AmazonSQS.SendMessage",
            b"Content-Length: %d" % len(body), *more, b"", body]  # fmt: skip
    return b"\r\n".join(head[:-1]) + b"\r\n" + body


def test_requests_that_come_together_are_answered_in_their_order(gateway: Server, sqs: Any) -> None:
    url = make_url(sqs)
    wire = Wire(gateway.port)
    bodies = [f"{at} \u00e4" for at in range(20)]
    # The first one finds out what the settings of the queue are, and goes the usual way.
    requests = [request_of({"QueueUrl": url, "MessageBody": body}) for body in bodies]
    requests[7] = request_of({"QueueUrl": url, "MessageBody": ""})

    wire.send(b"".join(requests))
    answers = [wire.answer("POST") for _ in requests]
    wire.close()

    assert [each.status for each in answers] == [200] * 7 + [400] + [200] * 12
    assert all(UUID.fullmatch(each.headers["x-amzn-requestid"]) for each in answers)
    sent = [each.json()["MessageId"] for each in answers if each.status == 200]
    found: list[Any] = []
    while more := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        found += more
    assert [each["MessageId"] for each in found] == sent
    assert [each["Body"] for each in found] == [*bodies[:7], *bodies[8:]]


def test_what_goes_either_way_is_answered_alike(gateway: Server, sqs: Any) -> None:
    """A request that closes the connection is never answered the quick way."""
    url = make_url(sqs)
    values = {
        "QueueUrl": url, "MessageBody": "a", "MessageGroupId": "g",
        "MessageAttributes": {"n": {"DataType": "Number", "StringValue": "1"},
                              "b": {"DataType": "Binary.x", "BinaryValue": "AAE="}},
    }  # fmt: skip
    wire = Wire(gateway.port)
    told = []
    for more in ((), (), (b"Connection: close",)):
        wire.send(request_of(values, *more))
        told.append(wire.answer("POST").json())
        told[-1].pop("MessageId")
    wire.close()
    found = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    )["Messages"]

    assert told[0] == told[1] == told[2]
    assert len(found) == 3
    for each in found:
        assert each["MD5OfMessageAttributes"] == told[0]["MD5OfMessageAttributes"]
        assert each["MessageAttributes"]["b"]["BinaryValue"] == b"\0\1"


def test_what_the_store_refuses_is_told_by_the_usual_way(
    start_gateway: Callable[..., Server],
) -> None:
    server = start_gateway("--max-queue-messages=1")
    sqs = client_of(server)
    url = make_url(sqs)
    values = {"QueueUrl": url, "MessageBody": "a"}
    first = ask_json(server, "SendMessage", values)

    full = ask_json(server, "SendMessage", values)
    sqs.delete_queue(QueueUrl=url)
    gone = ask_json(server, "SendMessage", values)

    assert first.status == 200
    assert (full.status, full.name) == (503, "ServiceUnavailable")
    assert (gone.status, gone.name) == (400, "QueueDoesNotExist")
    assert not (server.root / "queues" / name_of(url)).exists()
    assert "Traceback" not in server.log()
