"""Forms as values, and values as XML."""

from __future__ import annotations

import random
from typing import Any
from urllib.parse import quote_plus, unquote_plus
from xml.etree import ElementTree

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from mq_sqs.faults import SQSError
from mq_sqs.protocol import SqsRequest
from mq_sqs.protocol.query import QueryDialect

NO_HEADERS = CIMultiDictProxy(CIMultiDict[str]())


def read(operation: str, form: str | bytes, path: str = "/", query: str = "") -> dict[str, Any]:
    body = form.encode() if isinstance(form, str) else form
    return QueryDialect().read(operation, SqsRequest("POST", path, query, NO_HEADERS, body))


@pytest.mark.parametrize(
    ("operation", "form", "member", "value"),
    [
        ("GetQueueAttributes", "AttributeName=All", "AttributeNames", ["All"]),
        ("GetQueueAttributes", "AttributeNames=", "AttributeNames", []),
        ("ReceiveMessage", "MessageAttributeNames=All", "MessageAttributeNames", ["All"]),
        ("GetQueueAttributes", "AttributeNames.2=b&AttributeNames.1=a", "AttributeNames",
         ["a", "b"]),
        ("SendMessageBatch", "Entries=", "Entries", []),
        ("GetQueueAttributes", "AttributeName.5=b&AttributeName.3=a", "AttributeNames", ["a", "b"]),
        ("SetQueueAttributes", "Attribute.1.Name=a&Attribute.1.Value=b", "Attributes", {"a": "b"}),
        ("SetQueueAttributes", "Attribute.Name=a&Attribute.Value=b", "Attributes", {"a": "b"}),
        ("TagQueue", "Tag.2.Key=a&Tag.2.Value=&Tag.9.Key=c&Tag.9.Value=%20+", "Tags",
         {"a": "", "c": "  "}),
        ("SendMessage", "MessageBody=ä%C3%A4%0D", "MessageBody", "ää\r"),
        ("SendMessage", "MessageBody=a;b=c", "MessageBody", "a;b=c"),
        ("ReceiveMessage", "MaxNumberOfMessages=%2B05", "MaxNumberOfMessages", 5),
    ],
)  # fmt: skip
def test_a_form_is_read_as_clients_write_it(
    operation: str, form: str, member: str, value: object
) -> None:
    assert read(operation, f"QueueUrl=q&{form}") == {"QueueUrl": "q", member: value}


@pytest.mark.parametrize(
    ("operation", "form", "code"),
    [
        ("GetQueueAttributes", "AttributeNames=All&AttributeName.1=All", "MalformedInput"),
        ("GetQueueAttributes", "AttributeNames=&AttributeName.1=All", "MalformedInput"),
        ("SetQueueAttributes", "Attributes=", "MalformedInput"),
        ("GetQueueAttributes", "AttributeName.0=All", "MalformedInput"),
        ("GetQueueAttributes", "AttributeName.01=All", "MalformedInput"),
        ("GetQueueAttributes", "AttributeName=All&AttributeName.1=All", "MalformedInput"),
        ("GetQueueAttributes", "AttributeName.member.1=All", "MalformedInput"),
        ("SetQueueAttributes", "Attribute.Name=a", "MissingParameter"),
        ("SetQueueAttributes", "Attribute.Name=a&Attribute.Value=b&Attribute.1.Name=c",
         "MalformedInput"),
        ("ReceiveMessage", "MaxNumberOfMessages=1.0", "InvalidParameterValue"),
        ("ReceiveMessage", "MaxNumberOfMessages=%D9%A1", "InvalidParameterValue"),
        ("ReceiveMessage", b"MaxNumberOfMessages=\xff", "MalformedQueryString"),
    ],
)  # fmt: skip
def test_a_form_that_says_something_else_is_refused(
    operation: str, form: str | bytes, code: str
) -> None:
    body = form.encode() if isinstance(form, str) else form
    with pytest.raises(SQSError) as refused:
        read(operation, b"QueueUrl=q&" + body)

    assert refused.value.fault.code == code


def test_what_clients_escape_is_decoded_without_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 MiB of escapes would keep everyone else waiting."""
    text = "".join(map(chr, range(1, 300))) + "=3D%41\r\n%\U0001f600"

    def fail(_: bytes) -> bytes:
        raise AssertionError

    monkeypatch.setattr("mq_sqs.protocol.query.unquote_to_bytes", fail)
    for escaped in (quote_plus(text), "".join(f"%{byte:02x}" for byte in text.encode())):
        assert read("GetQueueUrl", f"QueueName={escaped}") == {"QueueName": text}


def test_whatever_has_the_sign_of_an_escape_is_decoded_as_the_library_does() -> None:
    pieces = ["%", "=", "+", "\n", "\r", "4", "1", "%41", "%3D", "z", "%0A", "%0d", "ä", "%C3%A4"]
    chance = random.Random(1)
    for _ in range(5000):
        text = "".join(chance.choices(pieces, k=chance.randint(1, 8)))

        assert read("GetQueueUrl", f"QueueName={text}") == {"QueueName": unquote_plus(text)}, text


def test_whatever_a_text_has_the_answer_is_xml() -> None:
    text = "<&>\"'\r\n\t\x00\x1f\ufffe\ud800ä\U0001f600]]>"

    answer = QueryDialect().answer("GetQueueUrl", {"QueueUrl": text}, "id")

    _, _, body = answer.to_bytes(is_last=False).partition(b"\r\n\r\n")
    [[url], _] = ElementTree.fromstring(body)
    assert url.text == "<&>\"'\r\n\t\ufffd\ufffd\ufffd\ufffdä\U0001f600]]>"
