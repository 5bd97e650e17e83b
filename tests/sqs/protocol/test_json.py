"""Documents as values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from mq_sqs.faults import INVALID_ADDRESS, SQSError
from mq_sqs.protocol import SqsRequest, Values
from mq_sqs.protocol.json import JsonDialect

HEADERS = CIMultiDictProxy(CIMultiDict({"X-Amz-Target": "AmazonSQS.SendMessage"}))
SEND = {"QueueUrl": "q", "MessageBody": "x"}
GREETING = {"DataType": "Binary", "BinaryValue": "AAEC"}
CITY = {"DataType": "String", "StringValue": "Gruß"}
PLAIN = {"DataType": "String", "StringValue": "x"}


def read(values: dict[str, Any], operation: str = "SendMessage") -> Values:
    body = json.dumps(values).encode()
    return JsonDialect().read(operation, SqsRequest("POST", "/", "", HEADERS, body))


@pytest.mark.parametrize("more", [{}, {"DelaySeconds": None}], ids=["plain", "with null"])
def test_attributes_are_read_by_their_types(more: dict[str, Any]) -> None:
    """What the quick reader began with, the other one reads from the beginning."""
    found = read({**SEND, "MessageAttributes": {"a": GREETING, "ä": CITY}, **more})

    assert found == SEND | {
        "MessageAttributes": {"a": GREETING | {"BinaryValue": b"\0\1\2"}, "ä": CITY}
    }


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"MessageAttributes": {"a": GREETING, "b": 1}}, "'MessageAttributes.b' must be an object"),
        (
            {"MessageAttributes": {"a": GREETING | {"BinaryValue": "A"}}},
            "must be a string of Base64",
        ),
        ({"MessageAttributes": {"a": {"BinaryValue": "AAEC"}}}, "MessageAttributes.a.DataType"),
        (
            {"MessageAttributes": {"a": PLAIN, "b": PLAIN | {"StringValue": 1}}},
            "'MessageAttributes.b.StringValue' must be a string",
        ),
        (
            {"MessageAttributes": {"a": PLAIN, "b": PLAIN | {"DataType": ["String"]}}},
            "'MessageAttributes.b.DataType' must be a string",
        ),
        ({"MessageAttributes": {"a": PLAIN, "b": PLAIN | {"x": "y"}}}, "b.x' is not a parameter"),
        ({"MessageAttributes": {"a": PLAIN, "b": "DataType"}}, "b' must be an object"),
        ({"MessageAttributes": [CITY]}, "'MessageAttributes' must be an object"),
        ({"MessageBody": None}, "MessageBody"),
        ({"DelaySeconds": True}, "'DelaySeconds' must be a whole number"),
        ({"DelaySeconds": 1.0}, "'DelaySeconds' must be a whole number"),
        ({"DelaySeconds": 1 << 64}, "'DelaySeconds' must be a whole number"),
        ({"Nonsense": "x"}, "'Nonsense' is not a parameter"),
    ],
)
def test_the_place_of_what_is_wrong_is_named(values: dict[str, Any], why: str) -> None:
    with pytest.raises(SQSError, match=why):
        read(SEND | values)


@pytest.mark.parametrize(
    ("operation", "values", "place"),
    [
        ("TagQueue", {"QueueUrl": "q", "Tags": {"team": "kitchen", "old": None}}, "Tags.old"),
        ("CreateQueue", {"QueueName": "q", "tags": {"old": None}}, "tags.old"),
        ("CreateQueue", {"QueueName": "q", "Attributes": {"DelaySeconds": None}},
         "Attributes.DelaySeconds"),
        ("SendMessage", SEND | {"MessageAttributes": {"a": PLAIN, "b": None}},
         "MessageAttributes.b"),
    ],
)  # fmt: skip
def test_a_tag_or_an_attribute_may_not_be_null(
    operation: str, values: dict[str, Any], place: str
) -> None:
    """Amazon refuses such a tag. Without it the request would do less than it says."""
    with pytest.raises(SQSError, match=f"'{place}' may not be null") as refused:
        read(values, operation)

    assert refused.value.fault.code == "InvalidParameterValue"


def test_a_list_has_no_more_values_than_a_form() -> None:
    """A million prefixes kept everyone else waiting for two seconds."""
    values = {"QueueUrl": "q", "MessageAttributeNames": ["a.*"] * 2000}
    assert read(values, "ReceiveMessage") == values

    values["MessageAttributeNames"] = ["a.*"] * 2001
    with pytest.raises(SQSError, match="'MessageAttributeNames' must be an array of up to 2000"):
        read(values, "ReceiveMessage")


def test_names_of_the_query_protocol_are_passed_over() -> None:
    """kombu 5.3 and 5.4 ask for the receive count in this way."""
    values = read(SEND | {"AttributeName.1": "ApproximateReceiveCount"})

    assert {name: values[name] for name in SEND} == SEND


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{", "line 1 column 2"),
        (b'{"QueueUrl": "\xff"}', "not valid UTF-8"),
        (rb'{"MessageBody": "\ud800"}', "no low surrogate"),
        (rb'{"MessageAttributes": {"\ud800": {}}}', "no low surrogate"),
        (b'{"QueueUrl": ' + b"[" * 100_000, "depth limit exceeded"),
        (b'{"DelaySeconds": ' + b"1" * 5000 + b"}", "number is infinity"),
        (b'{"DelaySeconds": NaN}', "unexpected character"),
        (b"{} {}", "unexpected content after document"),
    ],
    ids=["cut off", "not UTF-8", "half a pair", "half a pair in a name", "nested", "long number",
         "not a number", "two documents"],
)  # fmt: skip
def test_what_is_not_json_is_refused_in_a_sentence(body: bytes, why: str) -> None:
    with pytest.raises(SQSError, match=f"the body is not JSON: .*{why}"):
        JsonDialect().read("SendMessage", SqsRequest("POST", "/", "", HEADERS, body))


def test_an_operation_is_named_once() -> None:
    headers = CIMultiDict(HEADERS)
    dialect = JsonDialect()
    assert dialect.operation_of(SqsRequest("POST", "/", "", HEADERS, b"")) == "SendMessage"
    headers.add("X-Amz-Target", "AmazonSQS.DeleteQueue")

    with pytest.raises(SQSError, match="twice"):
        dialect.operation_of(SqsRequest("POST", "/", "", CIMultiDictProxy(headers), b""))


@pytest.mark.parametrize("body", [b"", b" \n", b"{}"])
def test_an_empty_body_gives_no_values(body: bytes) -> None:
    assert JsonDialect().read("ListQueues", SqsRequest("POST", "/", "", HEADERS, body)) == {}


def test_an_answer_shows_texts_as_they_are_and_binary_values_in_base64() -> None:
    message = {"Body": 'ä"\t\x7f\U0001f600', "MessageAttributes": {"a": {"BinaryValue": b"\0\1\2"}}}

    answer = JsonDialect().answer("ReceiveMessage", {"Messages": [message]}, "1")

    body = answer.to_bytes(is_last=False).partition(b"\r\n\r\n")[2]
    shown = json.loads(body)["Messages"][0]
    assert shown == message | {"MessageAttributes": {"a": {"BinaryValue": "AAEC"}}}
    assert "ä".encode() in body


def test_an_answer_says_what_the_library_cannot_write() -> None:
    """A header `Host` may have any byte, and a person may note any number."""
    result = {"QueueUrl": "http://ä\udcff/0/q", "StartedTimestamp": 1 << 70, "Body": b"\0"}

    answers = [
        JsonDialect().answer("GetQueueUrl", result, "1"),
        JsonDialect().refuse(SQSError(INVALID_ADDRESS, "ä\udcff"), "1"),
    ]

    told, refused = [
        json.loads(each.to_bytes(is_last=False).partition(b"\r\n\r\n")[2]) for each in answers
    ]
    assert told == {"QueueUrl": "http://ä?/0/q", "StartedTimestamp": 1 << 70, "Body": "AA=="}
    assert refused["message"] == "ä?"
