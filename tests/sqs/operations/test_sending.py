"""SendMessage and its batch."""

from __future__ import annotations

import hashlib
import http.client
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from mq_sqs.messages.message_attributes import md5_of
from tests.support.gateways import ask_json, make_url, name_of
from tests.support.processes import Server

MIB = 1 << 20


def bodies_in(sqs: Any, url: str) -> list[str]:
    found = []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        found += [message["Body"] for message in messages]
    return found


@pytest.mark.parametrize(
    "text", ["a", "ä€\U0001f600", "<&>\"'\r\n\t", " ", "x" * 131_073, "\u00e9" * (MIB // 2)]
)
def test_a_body_comes_back_as_it_was_sent(sqs: Any, url: str, text: str) -> None:
    sent = sqs.send_message(QueueUrl=url, MessageBody=text)
    [message] = sqs.receive_message(QueueUrl=url)["Messages"]

    assert message["Body"] == text
    assert message["MessageId"] == sent["MessageId"]
    digest = hashlib.md5(text.encode()).hexdigest()
    assert sent["MD5OfMessageBody"] == message["MD5OfBody"] == digest


def test_a_message_is_a_file_with_the_text(gateway: Server, sqs: Any, url: str) -> None:
    sent = sqs.send_message(QueueUrl=url, MessageBody="zwei Kaffee, süß")

    file = gateway.root / "queues" / name_of(url) / sent["MessageId"]
    assert file.read_text() == "zwei Kaffee, süß"


def test_a_delayed_message_is_hidden(sqs: Any, url: str) -> None:
    slow = make_url(sqs, DelaySeconds="900")
    sqs.send_message(QueueUrl=url, MessageBody="late", DelaySeconds=900)
    sqs.send_message(QueueUrl=slow, MessageBody="late")
    sqs.send_message(QueueUrl=slow, MessageBody="now", DelaySeconds=0)

    assert bodies_in(sqs, url) == []
    assert bodies_in(sqs, slow) == ["now"]


def test_a_batch_is_sent_in_its_order(sqs: Any, url: str) -> None:
    entries = [{"Id": f"id_{at}", "MessageBody": f"text {at}"} for at in range(10)]

    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)

    assert [each["Id"] for each in sent["Successful"]] == [each["Id"] for each in entries]
    assert "Failed" not in sent
    assert bodies_in(sqs, url) == [each["MessageBody"] for each in entries]


def test_of_a_batch_the_good_entries_are_sent(sqs: Any, url: str) -> None:
    sent = sqs.send_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "good", "MessageBody": "a"},
            {"Id": "slow", "MessageBody": "b", "DelaySeconds": 901},
            {"Id": "bad", "MessageBody": "\0"},
            {"Id": "group", "MessageBody": "c", "MessageDeduplicationId": "g"},
            {"Id": "too", "MessageBody": "d"},
        ],
    )

    assert [each["Id"] for each in sent["Successful"]] == ["good", "too"]
    assert {each["Id"]: each["Code"] for each in sent["Failed"]} == {
        "slow": "InvalidParameterValue",
        "bad": "InvalidMessageContents",
        "group": "InvalidParameterValue",
    }
    assert all(each["SenderFault"] for each in sent["Failed"])
    assert bodies_in(sqs, url) == ["a", "d"]


def test_a_batch_without_a_good_entry_sends_nothing(sqs: Any, url: str) -> None:
    sent = sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "a", "MessageBody": "\0"}])

    assert "Successful" not in sent
    assert bodies_in(sqs, url) == []


@pytest.mark.parametrize(
    ("entries", "error"),
    [
        ([], "EmptyBatchRequest"),
        ([{"Id": str(at), "MessageBody": "a"} for at in range(11)], "TooManyEntriesInBatchRequest"),
        ([{"Id": "a", "MessageBody": "a"}] * 2, "BatchEntryIdsNotDistinct"),
        ([{"Id": "a.b", "MessageBody": "a"}], "InvalidBatchEntryId"),
        ([{"Id": "a" * 81, "MessageBody": "a"}], "InvalidBatchEntryId"),
        ([{"Id": str(at), "MessageBody": "a" * (MIB // 2 + 1)} for at in range(2)],
         "BatchRequestTooLong"),
        # Entries that are wrong count, and so do attributes.
        ([{"Id": "a", "MessageBody": "a" * MIB}, {"Id": "b", "MessageBody": "\0"}],
         "BatchRequestTooLong"),
        ([{"Id": "a", "MessageBody": "a" * (MIB - 8)},
          {"Id": "b", "MessageBody": "b", "MessageAttributes": {
              "n": {"DataType": "String", "StringValue": "v"}}}], "BatchRequestTooLong"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_batch_as_a_whole_is_said(
    sqs: Any, url: str, entries: list[dict[str, Any]], error: str
) -> None:
    with pytest.raises(getattr(sqs.exceptions, error)):
        sqs.send_message_batch(QueueUrl=url, Entries=entries)

    assert bodies_in(sqs, url) == []


def test_a_batch_of_a_mebibyte_is_sent(sqs: Any, url: str) -> None:
    entries = [{"Id": str(at), "MessageBody": "a" * (MIB // 8)} for at in range(8)]
    sqs.send_message_batch(QueueUrl=url, Entries=entries)

    assert [len(body) for body in bodies_in(sqs, url)] == [MIB // 8] * 8


@pytest.mark.parametrize(("limit", "text"), [(1024, "a" * 1025), (MIB, "a" * (MIB + 1))])
def test_a_message_that_is_too_long_is_refused(sqs: Any, limit: int, text: str) -> None:
    url = make_url(sqs, MaximumMessageSize=str(limit))

    for body in (text, text[1:] + "\x00"):  # Its characters are not looked at.
        with pytest.raises(ClientError, match=f"shorter than {limit}"):
            sqs.send_message(QueueUrl=url, MessageBody=body)
    sqs.send_message(QueueUrl=url, MessageBody=text[1:])


ATTRIBUTES: dict[str, dict[str, Any]] = {
    "City": {"DataType": "String", "StringValue": "Any City \u2028\x7f\t"},
    "city": {"DataType": "Number.int", "StringValue": "1250800"},
    "Greeting": {"DataType": "Binary.png", "BinaryValue": bytes(range(256))},
}
TRACE: dict[str, dict[str, Any]] = {
    "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1"}
}


def test_attributes_come_back_with_their_md5(sqs: Any, url: str) -> None:
    one = sqs.send_message(
        QueueUrl=url, MessageBody="a", MessageAttributes=ATTRIBUTES,
        MessageSystemAttributes=TRACE, MessageGroupId="g",
    )  # fmt: skip
    entries = [
        {"Id": "a", "MessageBody": "b" * 600_000, "MessageAttributes": ATTRIBUTES},
        {"Id": "b", "MessageBody": "c"},
    ]
    many = sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]
    sqs.send_message(QueueUrl=url, MessageBody="d" * 600_000, MessageAttributes=ATTRIBUTES)

    found = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"],
        MessageSystemAttributeNames=["AWSTraceHeader", "MessageGroupId"],
    )["Messages"]  # fmt: skip
    digest = md5_of(ATTRIBUTES)
    assert [each.get("MessageAttributes") for each in found] == [
        ATTRIBUTES, ATTRIBUTES, None, ATTRIBUTES,
    ]  # fmt: skip
    assert one["MD5OfMessageAttributes"] == many[0]["MD5OfMessageAttributes"] == digest
    assert {each.get("MD5OfMessageAttributes") for each in found} == {digest, None}
    assert one["MD5OfMessageSystemAttributes"] == md5_of(TRACE)
    assert found[0]["Attributes"] == {
        "AWSTraceHeader": TRACE["AWSTraceHeader"]["StringValue"],
        "MessageGroupId": "g",
    }


@pytest.mark.parametrize("way", ["quick", "usual"])
def test_the_trace_of_a_request_is_that_of_its_messages(
    gateway: Server, sqs: Any, url: str, way: str
) -> None:
    """A message may have one of its own, which counts. A request that closes the connection is
    never answered the quick way."""
    own, said = TRACE["AWSTraceHeader"]["StringValue"], "Root=1-67891233-abcdef012345678912345678"
    more = [("Connection", "close")] if way == "usual" else []
    json_type = {"Content-Type": "application/x-amz-json-1.0"}
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port)

    def ask(operation: str, trace: str, **values: Any) -> Any:
        target = {"X-Amz-Target": f"AmazonSQS.{operation}", "X-Amzn-Trace-Id": trace}
        body = json.dumps({"QueueUrl": url, **values})
        connection.request("POST", "/", body, json_type | target | dict(more))
        return json.loads(connection.getresponse().read())

    for at in range(3):
        assert "MD5OfMessageSystemAttributes" not in ask("SendMessage", said, MessageBody=f"{at}")
    ask("SendMessage", "another", MessageBody="own", MessageSystemAttributes=TRACE)
    ask("SendMessage", "Root=\xff", MessageBody="no text")
    entries: list[dict[str, Any]] = [{"Id": "a", "MessageBody": "a"}]
    entries += [{"Id": "b", "MessageBody": "b", "MessageSystemAttributes": TRACE}]
    ask("SendMessageBatch", said, Entries=entries)
    sqs.send_message(QueueUrl=url, MessageBody="none")
    connection.close()

    found = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["AWSTraceHeader"]
    )["Messages"]
    traces = [(each["Body"], each.get("Attributes", {}).get("AWSTraceHeader")) for each in found]
    assert traces == [
        ("0", said), ("1", said), ("2", said), ("own", own), ("no text", None), ("a", said),
        ("b", own), ("none", None),
    ]  # fmt: skip


def test_a_receiver_that_asks_for_some_attributes_gets_those(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="a", MessageAttributes=ATTRIBUTES)

    for asked, found in ((["D.*"], None), (["Cit.*"], {"City"}), (["city", "x"], {"city"})):
        [message] = sqs.receive_message(
            QueueUrl=url, MessageAttributeNames=asked, VisibilityTimeout=0
        )["Messages"]
        chosen = message.get("MessageAttributes")
        assert (chosen and chosen.keys()) == found
        if chosen:
            assert message["MD5OfMessageAttributes"] == md5_of(chosen)


def test_attributes_count_into_the_size(sqs: Any) -> None:
    url = make_url(sqs, MaximumMessageSize="1024")
    attributes = {"a": {"DataType": "String", "StringValue": "x" * 1000}}

    sqs.send_message(QueueUrl=url, MessageBody="b" * 17, MessageAttributes=attributes)
    with pytest.raises(ClientError, match="shorter than 1024"):
        sqs.send_message(QueueUrl=url, MessageBody="b" * 18, MessageAttributes=attributes)


@pytest.mark.parametrize("text", ["x", "ä", '"', "\x7f", "\U0001f600", b"\xff"], ids=repr)
def test_attributes_may_be_all_of_a_message(sqs: Any, url: str, text: Any) -> None:
    """Whatever JSON makes of them in the file."""
    line = make_url(sqs, FifoQueue="true", ContentBasedDeduplication="true")
    kind, member = ("String", "StringValue") if isinstance(text, str) else ("Binary", "BinaryValue")
    each = len(text.encode() if isinstance(text, str) else text)
    value = text * ((MIB - len(f"aa{kind}")) // each)
    attributes = {"a": {"DataType": kind, member: value}}
    message = {"MessageBody": "a", "MessageAttributes": attributes}

    sqs.send_message(QueueUrl=url, **message)
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "a", **message}])
    sqs.send_message(QueueUrl=line, MessageGroupId="a", **message)
    for queue, number in ((url, 2), (line, 1)):
        found = sqs.receive_message(
            QueueUrl=queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )["Messages"]
        assert len(found) == number
        assert all(each["MessageAttributes"] == attributes for each in found)
    longer = {"a": {"DataType": kind, member: value + text}}
    with pytest.raises(ClientError, match=f"shorter than {MIB}"):
        sqs.send_message(QueueUrl=url, MessageBody="a", MessageAttributes=longer)


def test_attributes_that_mq_cannot_keep_are_refused(gateway: Server, sqs: Any, url: str) -> None:
    """Only a system attribute can be so long, which does not count into the size."""
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "\x7f" * 1_500_000}}
    message = {"MessageBody": "a", "MessageSystemAttributes": trace}

    for each in (message, {"Entries": [{"Id": "a", **message}]}):
        body = json.dumps({"QueueUrl": url, **each}).replace("\\u007f", "\x7f").encode()
        operation = "SendMessageBatch" if "Entries" in each else "SendMessage"
        assert b"bytes; at most 8388608" in ask_json(gateway, operation, body).body
    assert bodies_in(sqs, url) == []


def test_an_empty_message_is_refused(gateway: Server, url: str) -> None:
    told = ask_json(gateway, "SendMessage", {"QueueUrl": url, "MessageBody": ""})

    assert (told.status, told.code) == (400, "MissingParameter")


def test_escapes_of_json_make_no_message_too_long(gateway: Server, sqs: Any, url: str) -> None:
    body = json.dumps({"QueueUrl": url, "MessageBody": "é" * (MIB // 2)}, ensure_ascii=True)
    told = ask_json(gateway, "SendMessage", body.encode())

    assert told.status == 200
    assert [len(text) for text in bodies_in(sqs, url)] == [MIB // 2]


def test_a_batch_with_an_entry_that_lacks_its_group_or_id_is_refused_whole(sqs: Any) -> None:
    """Amazon says of each of them that the action fails."""
    by_body = make_url(sqs, FifoQueue="true", ContentBasedDeduplication="true")
    explicit = make_url(sqs, FifoQueue="true")
    entry = {"MessageBody": "a", "MessageGroupId": "a", "MessageDeduplicationId": "a"}

    for url, lacks in ((by_body, "MessageGroupId"), (explicit, "MessageDeduplicationId")):
        wrong = {name: text for name, text in entry.items() if name != lacks}
        with pytest.raises(ClientError, match=f"[(]InvalidParameterValue[)].*{lacks}"):
            sqs.send_message_batch(
                QueueUrl=url, Entries=[{"Id": "a", **entry}, {"Id": "b", **wrong}]
            )
        assert bodies_in(sqs, url) == []
