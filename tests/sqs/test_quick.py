"""Sends and deletions without a task for each request: what clients see is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.gateways import UUID, ask_json, client_of, make_url, name_of
from tests.support.processes import Server
from tests.support.raw_calls import CLOSE, ask, request_of
from tests.support.wire import Wire


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


def test_what_the_store_refuses_is_answered_by_the_usual_way(
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


def receive(sqs: Any, url: str, number: int, **values: Any) -> list[str]:
    found: list[str] = []
    while len(found) < number:
        more = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, **values)["Messages"]
        found += [each["ReceiptHandle"] for each in more]
    return found


@pytest.mark.parametrize("more", [(), (CLOSE,)], ids=["quick", "usual"])
def test_a_deletion_removes_under_its_lease_alone(
    gateway: Server, sqs: Any, more: tuple[bytes, ...]
) -> None:
    url = make_url(sqs)
    for body in "ab":
        sqs.send_message(QueueUrl=url, MessageBody=body)
    older = receive(sqs, url, 1, VisibilityTimeout=0)
    first, second = receive(sqs, url, 2)

    told = [
        ask(gateway, b"DeleteMessage", {"QueueUrl": url, "ReceiptHandle": handle}, *more)
        for handle in (*older, first, first, "nonsense")
    ]

    assert [status for status, _ in told] == [200] * 4 + [404]
    assert [values for _, values in told[:4]] == [{}] * 4
    assert told[4][1]["__type"] == "com.amazonaws.sqs#ReceiptHandleIsInvalid"
    left = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert left["ApproximateNumberOfMessagesNotVisible"] == "1"
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=second, VisibilityTimeout=9)


@pytest.mark.parametrize("more", [(), (CLOSE,)], ids=["quick", "usual"])
def test_a_batch_of_nonsense_for_a_queue_that_is_not_there_says_that(
    gateway: Server, more: tuple[bytes, ...]
) -> None:
    values = {"QueueUrl": "nobodys", "Entries": [{"Id": "a", "ReceiptHandle": "nonsense"}]}

    status, told = ask(gateway, b"DeleteMessageBatch", values, *more)

    assert (status, told["__type"]) == (400, "com.amazonaws.sqs#QueueDoesNotExist")


@pytest.mark.parametrize("more", [(), (CLOSE,)], ids=["quick", "usual"])
def test_a_batch_of_deletions_is_answered_alike(
    gateway: Server, sqs: Any, more: tuple[bytes, ...]
) -> None:
    url = make_url(sqs)
    for body in "abc":
        sqs.send_message(QueueUrl=url, MessageBody=body)
    older = receive(sqs, url, 1, VisibilityTimeout=0)[0]
    handles = receive(sqs, url, 3)
    shown = [older, handles[0], "nonsense", handles[0], handles[1], handles[2]]
    entries = [{"Id": str(at), "ReceiptHandle": handle} for at, handle in enumerate(shown)]
    values = {"QueueUrl": url, "Entries": entries}

    status, told = ask(gateway, b"DeleteMessageBatch", values, *more)

    assert status == 200
    assert [each["Id"] for each in told["Successful"]] == ["0", "1", "3", "4", "5"]
    assert [(each["Id"], each["Code"]) for each in told["Failed"]] == [
        ("2", "ReceiptHandleIsInvalid")
    ]
    left = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert {left[name] for name in left if "NumberOfMessages" in name} == {"0"}
    for wrong in ([], entries * 2, [entries[0]] * 2, [{"Id": "a"}], [entries[0] | {"Id": "?"}]):
        values["Entries"] = wrong
        assert ask(gateway, b"DeleteMessageBatch", values, *more)[0] == 400
    assert ask(gateway, b"DeleteMessageBatch", {**values, "QueueUrl": "gone"}, *more)[0] == 400


@pytest.mark.parametrize("more", [(), (CLOSE,)], ids=["quick", "usual"])
def test_a_batch_of_messages_is_answered_alike(
    gateway: Server, sqs: Any, more: tuple[bytes, ...]
) -> None:
    url = make_url(sqs)
    sqs.send_message(QueueUrl=url, MessageBody="first")  # Now the settings are known.
    number = {"n": {"DataType": "Number", "StringValue": "1"}}
    entries: list[dict[str, Any]] = [
        {"Id": "a", "MessageBody": "one", "MessageAttributes": number},
        {"Id": "b", "MessageBody": ""},
        {"Id": "c", "MessageBody": "two", "DelaySeconds": 0},
        {"Id": "d", "MessageBody": "three", "DelaySeconds": 901},
    ]
    values: dict[str, Any] = {"QueueUrl": url, "Entries": entries}

    status, told = ask(gateway, b"SendMessageBatch", values, *more)
    alone = ask(gateway, b"SendMessageBatch", {**values, "Entries": entries[1:3]}, *more)
    none = ask(gateway, b"SendMessageBatch", {**values, "Entries": entries[1:2]}, *more)

    assert (status, alone[0], none[0]) == (200, 200, 200)
    assert [each["Id"] for each in told["Successful"]] == ["a", "c"]
    assert [(each["Id"], each["Code"]) for each in told["Failed"]] == [
        ("b", "EmptyValue"), ("d", "InvalidParameterValue"),
    ]  # fmt: skip
    assert "MD5OfMessageAttributes" in told["Successful"][0]
    assert "Successful" not in none[1]
    sent = [each["MessageId"] for each in (*told["Successful"], *alone[1]["Successful"])]
    found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [each["Body"] for each in found] == ["first", "one", "two", "two"]
    assert [each["MessageId"] for each in found[1:]] == sent
    for wrong in ([], entries * 3, [entries[0]] * 2, [{"Id": "a"}], [{**entries[0], "Id": "?"}]):
        values["Entries"] = wrong
        assert ask(gateway, b"SendMessageBatch", values, *more)[0] == 400
    sqs.delete_queue(QueueUrl=url)
    gone = ask(gateway, b"SendMessageBatch", {**values, "Entries": entries}, *more)
    assert gone[1]["__type"] == "com.amazonaws.sqs#QueueDoesNotExist"


@pytest.mark.parametrize("more", [(), (CLOSE,)], ids=["quick", "usual"])
def test_a_batch_of_messages_for_a_fifo_queue_is_answered_alike(
    gateway: Server, sqs: Any, more: tuple[bytes, ...]
) -> None:
    name = f"batches-{len(more)}.fifo"
    url = sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"]

    def entry(at: int, **values: str) -> dict[str, str]:
        ids = {"Id": str(at), "MessageGroupId": "g", "MessageDeduplicationId": str(at % 3)}
        return {"MessageBody": str(at), **ids, **values}

    values: dict[str, Any] = {"QueueUrl": url, "Entries": [entry(at) for at in range(5)]}
    answers = [ask(gateway, b"SendMessageBatch", values, *more) for _ in range(2)]
    values["Entries"] = [entry(5, MessageBody=""), entry(6, MessageDeduplicationId="6")]
    _, third = ask(gateway, b"SendMessageBatch", values, *more)
    values["Entries"] = [{"Id": "a", "MessageBody": "a", "MessageGroupId": "g"}]
    refused = ask(gateway, b"SendMessageBatch", values, *more)

    numbers = [[each["SequenceNumber"] for each in told["Successful"]] for _, told in answers]
    assert numbers[0] == numbers[1]
    assert numbers[0][3:] == numbers[0][:2]
    assert [each["Id"] for each in third["Successful"]] == ["6"]
    assert refused[0] == 400
    found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [each["Body"] for each in found] == ["0", "1", "2", "6"]


def test_a_deletion_in_a_queue_that_is_gone_is_answered_by_the_usual_way(
    gateway: Server, sqs: Any
) -> None:
    url = make_url(sqs)
    sqs.send_message(QueueUrl=url, MessageBody="a")
    [handle] = receive(sqs, url, 1)
    sqs.delete_queue(QueueUrl=url)

    for operation, values in (
        (b"DeleteMessage", {"ReceiptHandle": handle}),
        (b"DeleteMessageBatch", {"Entries": [{"Id": "a", "ReceiptHandle": handle}]}),
    ):
        status, told = ask(gateway, operation, {"QueueUrl": url, **values})
        assert (status, told["__type"]) == (400, "com.amazonaws.sqs#QueueDoesNotExist")


def test_messages_of_fifo_queues_are_sent_and_deleted_this_way_in_their_order(
    gateway: Server, sqs: Any
) -> None:
    url = sqs.create_queue(QueueName="quick.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    values = {"QueueUrl": url, "MessageGroupId": "g"}
    wire = Wire(gateway.port)
    sends = [
        request_of({**values, "MessageBody": str(at), "MessageDeduplicationId": str(at % 10)})
        for at in range(12)
    ]
    wire.send(b"".join(sends))
    sent = [wire.answer("POST").json() for _ in sends]
    refused = request_of({**values, "MessageBody": "no id to tell it by"})
    wire.send(refused)
    told = wire.answer("POST")
    found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    entries = [
        {"Id": str(at), "ReceiptHandle": each["ReceiptHandle"]} for at, each in enumerate(found)
    ]
    first, *others = entries
    wire.send(
        request_of(
            {"QueueUrl": url, "ReceiptHandle": first["ReceiptHandle"]}, operation=b"DeleteMessage"
        )
    )
    deleted = wire.answer("POST")
    wire.send(request_of({"QueueUrl": url, "Entries": others}, operation=b"DeleteMessageBatch"))
    answer = wire.answer("POST").json()
    wire.close()

    assert told.status == 400
    assert [each["SequenceNumber"] for each in sent[10:]] == [
        each["SequenceNumber"] for each in sent[:2]
    ]
    assert [each["Body"] for each in found] == [str(at) for at in range(10)]
    assert [each["MessageId"] for each in found] == [each["MessageId"] for each in sent[:10]]
    assert deleted.status == 200
    assert [each["Id"] for each in answer["Successful"]] == [each["Id"] for each in others]
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_a_head_that_came_before_is_answered_alike(gateway: Server, sqs: Any) -> None:
    """Whether a request succeeds, is refused, or goes the usual way in the end."""
    url = make_url(sqs)
    wire = Wire(gateway.port)
    good = {"QueueUrl": url, "MessageBody": "a"}
    gone = {"QueueUrl": f"{url}-gone", "MessageBody": "a"}
    told = []
    for values in (good, good, good, gone, good, {**good, "MessageBody": ""}, good):
        wire.send(request_of(values, b"X-Amz-Date: 20261123T025004Z"))
        told.append(wire.answer("POST"))
    wire.send(request_of(good)[:-1])
    wire.send(request_of(good)[-1:] + request_of(good))
    told += [wire.answer("POST"), wire.answer("POST")]
    wire.close()

    assert [each.status for each in told] == [200, 200, 200, 400, 200, 400, 200, 200, 200]
    assert told[3].json()["__type"].endswith("#QueueDoesNotExist")
    assert told[5].json()["__type"].endswith("#MissingRequiredParameterException")
    ids = [each.headers["x-amzn-requestid"] for each in told]
    assert all(map(UUID.fullmatch, ids))
    assert len(set(ids)) == len(ids)
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessages"] == "7"
