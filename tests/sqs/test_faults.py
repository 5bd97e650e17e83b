"""The errors that values of a request meet, in both protocols."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mq import errors
from mq_sqs import faults
from mq_sqs.faults import SqsFault, translate
from tests.support.gateways import (
    UUID,
    ask_both,
    ask_json,
    ask_query,
    nobodys_handle,
    send,
    text_in,
)
from tests.support.processes import Server

SEND = {"MessageBody": "a"}
TWICE = [{"Id": "a", "MessageBody": "a"}] * 2
ELEVEN = [{"Id": str(at), "MessageBody": "a"} for at in range(11)]
HUGE = [{"Id": str(at), "MessageBody": "a" * 600_000} for at in range(2)]

INVALID = "InvalidParameterValueException", "InvalidParameterValue"
MISSING = "MissingRequiredParameterException", "MissingParameter"

CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("CreateQueue", {"QueueName": "a b"}, *INVALID),
    ("CreateQueue", {"QueueName": "a.fifo"}, *INVALID),
    ("CreateQueue", {"QueueName": "a", "Attributes": {"Nonsense": "1"}}, "InvalidAttributeName",
     "InvalidAttributeName"),
    ("CreateQueue", {"QueueName": "a", "Attributes": {"DelaySeconds": "x"}},
     "InvalidAttributeValue", "InvalidAttributeValue"),
    ("CreateQueue", {"QueueName": "URL", "Attributes": {"DelaySeconds": "1"}}, "QueueNameExists",
     "QueueAlreadyExists"),
    ("CreateQueue", {}, *MISSING),
    ("GetQueueUrl", {"QueueName": "not-there"}, "QueueDoesNotExist",
     "AWS.SimpleQueueService.NonExistentQueue"),
    ("SendMessage", {"QueueUrl": "http://localhost/0/not-there", **SEND}, "QueueDoesNotExist",
     "AWS.SimpleQueueService.NonExistentQueue"),
    ("SendMessage", {"QueueUrl": "http://localhost/", **SEND}, "QueueDoesNotExist",
     "AWS.SimpleQueueService.NonExistentQueue"),
    ("SendMessage", {"QueueUrl": "URL", "MessageBody": "\x00"}, "InvalidMessageContents",
     "InvalidMessageContents"),
    ("SendMessage", {"QueueUrl": "URL", **SEND, "DelaySeconds": 901}, *INVALID),
    ("SendMessageBatch", {"QueueUrl": "URL", "Entries": []}, "EmptyBatchRequest",
     "AWS.SimpleQueueService.EmptyBatchRequest"),
    ("SendMessageBatch", {"QueueUrl": "URL", "Entries": TWICE}, "BatchEntryIdsNotDistinct",
     "AWS.SimpleQueueService.BatchEntryIdsNotDistinct"),
    ("SendMessageBatch", {"QueueUrl": "URL", "Entries": ELEVEN}, "TooManyEntriesInBatchRequest",
     "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"),
    ("SendMessageBatch", {"QueueUrl": "URL", "Entries": HUGE}, "BatchRequestTooLong",
     "AWS.SimpleQueueService.BatchRequestTooLong"),
    ("SendMessageBatch", {"QueueUrl": "URL", "Entries": [{"Id": "!", **SEND}]},
     "InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId"),
    ("DeleteMessage", {"QueueUrl": "URL", "ReceiptHandle": "x"}, "ReceiptHandleIsInvalid",
     "ReceiptHandleIsInvalid"),
    ("ChangeMessageVisibility",
     {"QueueUrl": "URL", "ReceiptHandle": "HANDLE", "VisibilityTimeout": 1},
     *INVALID),
    ("AddPermission", {"QueueUrl": "URL", "Label": "a", "AWSAccountIds": ["1"], "Actions": ["*"]},
     "UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation"),
    ("RemovePermission", {"QueueUrl": "URL", "Label": "a"}, "UnsupportedOperation",
     "AWS.SimpleQueueService.UnsupportedOperation"),
    ("Nonsense", {}, "UnknownOperationException", "InvalidAction"),
    ("SendMessage", {"QueueUrl": "URL", **SEND, "Nonsense": "1"}, "SerializationException",
     "MalformedInput"),
    ("ReceiveMessage", {"QueueUrl": "URL", "AttributeNames": ["x"]}, "InvalidAttributeName",
     "InvalidAttributeName"),
    ("SetQueueAttributes", {"QueueUrl": "URL", "Attributes": {}}, *MISSING),
    ("TagQueue", {"QueueUrl": "URL", "Tags": {}}, *MISSING),
    ("UntagQueue", {"QueueUrl": "URL", "TagKeys": []}, *INVALID),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[2]}")
def test_an_error_has_its_name_and_code_in_both_protocols(
    gateway: Server, url: str, case: tuple[str, dict[str, Any], str, str]
) -> None:
    operation, values, name, code = case
    if values.get("QueueUrl") == "URL":
        values = values | {"QueueUrl": url}
    if values.get("ReceiptHandle") == "HANDLE":
        values = values | {"ReceiptHandle": nobodys_handle(url)}
    if values.get("QueueName") == "URL":
        values = values | {"QueueName": url.rpartition("/")[2]}

    by_json, query = ask_both(gateway, operation, values)

    assert (by_json.name, by_json.code, query.code) == (name, code, code)
    assert by_json.status == query.status
    assert 400 <= by_json.status < 500
    if name == "QueueDoesNotExist":
        assert by_json.message == "The specified queue does not exist."
        assert query.message == "The specified queue does not exist for this wsdl version."
    else:
        assert by_json.message == query.message
    assert by_json.message
    assert by_json.headers["x-amzn-query-error"] == f"{code};Sender"
    assert text_in(query, "Type") == "Sender"
    assert UUID.fullmatch(by_json.headers["x-amzn-RequestId"])
    assert text_in(query, "RequestId") == query.headers["x-amzn-RequestId"]


@pytest.mark.parametrize(
    ("operation", "values"),
    [
        ("ChangeMessageVisibility", {"ReceiptHandle": "x", "VisibilityTimeout": -1}),
        ("DeleteMessage", {"ReceiptHandle": "x"}),
        ("DeleteMessageBatch", {"Entries": []}),
        ("GetQueueAttributes", {"AttributeNames": ["x"]}),
        ("ReceiveMessage", {"MaxNumberOfMessages": 11}),
        ("SendMessage", {"MessageBody": "\x00"}),
        ("SendMessageBatch", {"Entries": TWICE}),
        ("SetQueueAttributes", {"Attributes": {"Nonsense": "1"}}),
        ("TagQueue", {"Tags": {}}),
        ("UntagQueue", {"TagKeys": []}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_missing_queue_is_reported_first(
    gateway: Server, operation: str, values: dict[str, Any]
) -> None:
    for told in ask_both(gateway, operation, {"QueueUrl": "/0/not-there", **values}):
        assert told.code == "AWS.SimpleQueueService.NonExistentQueue"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Content-Encoding": "gzip"}, "MalformedInput"),
        ({"Content-Encoding": "aws-chunked"}, "MalformedInput"),
        ({"Content-Encoding": "Identity"}, ""),
        ({"x-amz-target": "AmazonSQS.DeleteQueue"}, "InvalidAction"),
    ],
)
def test_a_request_that_says_two_things_is_refused(
    gateway: Server, url: str, headers: dict[str, str], code: str
) -> None:
    """For the quick way too, which is the one of this operation."""
    body = json.dumps({"QueueUrl": url, "MessageBody": "a"}).encode()
    target = {"X-Amz-Target": "AmazonSQS.SendMessage"}

    assert send(gateway, "POST", "/", {**target, **headers}, body).code == code


def test_of_a_name_that_json_gives_twice_the_last_counts(gateway: Server, url: str) -> None:
    body = b'{"MessageBody": 7, "QueueUrl": "%s", "MessageBody": "b"}' % url.encode()

    told = ask_json(gateway, "SendMessage", body)

    assert told.json()["MD5OfMessageBody"] == "92eb5ffee6ae2fec3ad71c777531578f"


def test_a_name_that_a_form_gives_twice_is_refused(gateway: Server, url: str) -> None:
    tags = {"Tag.1.Key": "k", "Tag.1.Value": "1", "Tag.2.Key": "k", "Tag.2.Value": "2"}
    attributes = {
        f"MessageAttribute.{at}.{name}": value
        for at in (1, 2)
        for name, value in (
            ("Name", "n"), ("Value.DataType", "String"), ("Value.StringValue", str(at)),
        )
    }  # fmt: skip

    for operation, fields in (("TagQueue", tags), ("SendMessage", {**SEND, **attributes})):
        told = ask_query(gateway, operation, {"QueueUrl": url, **fields})
        assert (told.status, told.code) == (400, "InvalidParameterValue"), operation
        assert "given twice" in told.message


def test_what_is_not_the_protocol_is_refused(gateway: Server, url: str) -> None:
    for body in (b"{", b"[]", b"1", b'{"a":' * 5000, b"\xff", b'{"QueueUrl": 1e999}', b"9" * 5000):
        told = ask_json(gateway, "SendMessage", body)
        assert (told.status, told.name) == (400, "SerializationException"), body[:20]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for body in (b"Action=%ff", b"Action=ListQueues&Action=ListQueues", b"\xff=1",
                 b"&".join(b"a%d=1" % at for at in range(2001))):  # fmt: skip
        told = send(gateway, "POST", "/", form, body)
        assert (told.status, told.code) == (400, "MalformedQueryString"), body[:20]
    for target in ("/", url, f"{url}?a=b"):
        told = send(gateway, "GET", target, {})
        assert (told.status, told.code) == (404, "UnknownOperationException"), target
        assert "Action" in told.message
    told = send(gateway, "POST", url, form, b"a=b")
    assert (told.status, told.code) == (400, "MissingAction")
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        told = send(gateway, method, "/", {})
        assert (told.status, told.code) == (405, "UnsupportedMethod")
        assert told.headers["allow"] == "GET, POST"
    told = send(gateway, "HEAD", "/", {})
    assert (told.status, told.headers["allow"]) == (405, "GET, POST")


def test_a_target_of_another_service_is_refused(gateway: Server) -> None:
    told = send(gateway, "POST", "/", {"X-Amz-Target": "DynamoDB_20120810.ListTables"}, b"{}")

    assert (told.status, told.name) == (400, "UnknownOperationException")


def test_a_form_counts_more_than_the_target_of_another_service(gateway: Server) -> None:
    """Amazon::SQS::Simple of Perl sends both."""
    target = {"X-Amz-Target": "AmazonSQSv20121105.ListQueues"}
    form = {"Content-Type": "application/x-www-form-urlencoded;charset=utf-8"}

    told = send(gateway, "POST", "/", {**target, **form}, b"Action=ListQueues")

    assert told.status == 200
    assert b"<ListQueuesResult>" in told.body


def test_a_request_that_is_too_long_is_refused(gateway: Server, url: str) -> None:
    told = ask_json(gateway, "SendMessage", b" " * (8 * (1 << 20) + 1))

    assert (told.status, told.name) == (413, "RequestEntityTooLarge")


def test_another_name_of_the_server_and_other_sites_are_refused(gateway: Server) -> None:
    target = {"X-Amz-Target": "AmazonSQS.ListQueues"}
    foreign = send(gateway, "POST", "/", {**target, "Host": "evil.example.org"}, b"{}")
    page = send(gateway, "POST", "/", {**target, "Origin": "https://evil.example.org"}, b"{}")

    assert (foreign.status, foreign.name) == (404, "InvalidAddress")
    assert (page.status, page.name) == (403, "InvalidSecurity")


def test_a_store_that_cannot_answer_now_is_the_receivers_fault() -> None:
    error = translate(errors.StoreUnavailable("the disk is full"))

    assert (error.fault.status, error.fault.is_senders) == (503, False)
    assert str(error) == "the disk is full"


@pytest.mark.parametrize(
    "error", [each for each in vars(errors).values() if each in errors.MQError.__subclasses__()]
)
def test_each_error_that_a_request_can_meet_has_a_fault(error: type[errors.MQError]) -> None:
    of_http = {errors.Unauthorized, errors.InvalidBatch, errors.UnsupportedMediaType,
               errors.MessageNotFound, errors.IdTaken, errors.TooOld, errors.LeaseMismatch,
               errors.ClaimError, errors.CommandFailed}  # fmt: skip

    assert (error in faults._FAULTS) is (error not in of_http)


def test_no_two_errors_have_one_name() -> None:
    found = [value for value in vars(faults).values() if isinstance(value, SqsFault)]

    assert len({each.name for each in found}) == len(found)


def test_the_query_protocol_works_by_get_and_at_the_path_of_the_queue(
    gateway: Server, url: str
) -> None:
    path = "/" + url.split("/", 3)[3]
    sent = ask_query(gateway, "SendMessage", {"MessageBody": "a & b"}, path)
    told = send(gateway, "GET", f"{path}?Action=ReceiveMessage&AttributeName=All", {})

    assert sent.status == told.status == 200
    assert text_in(told, "Body") == "a & b"
    assert text_in(told, "MessageId") == text_in(sent, "MessageId")
    assert told.headers["Content-Type"] == "text/xml"
