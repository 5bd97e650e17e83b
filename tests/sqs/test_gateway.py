"""Whatever is sent to a gateway is answered: never 500, never a closed connection."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mq.config import MIB
from mq.store.answer_memory import MAX_ANSWERS_BYTES
from mq_sqs.model import OPERATIONS, TEXT, WHOLE, ListOf, MapOf, Scalar, Shape, Structure
from tests.support.gateways import (
    ask_both,
    ask_json,
    ask_query,
    client_of,
    flatten,
    make_url,
    send,
    text_in,
)
from tests.support.processes import Server, resident_bytes
from tests.support.wire import Wire, request_bytes

SLOW_READERS = 100
SLACK = 350 * MIB
"""The process itself, a message for each of them, and what the allocator keeps."""

FEW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
QUICK = sorted(OPERATIONS.keys())


def nearly(shape: Shape) -> st.SearchStrategy[Any]:
    """Values of a shape, or of nothing like it."""
    if isinstance(shape, Structure):
        right: st.SearchStrategy[Any] = st.fixed_dictionaries(
            {}, optional={name: nearly(each) for name, each in shape.members.items()}
        )
    elif isinstance(shape, ListOf):
        right = st.lists(nearly(shape.item), max_size=12)
    elif isinstance(shape, MapOf):
        right = st.dictionaries(st.text(max_size=6), nearly(shape.value), max_size=3)
    else:
        right = {
            TEXT: st.text(max_size=10) | st.sampled_from(["http://localhost/0/hostile", "All"]),
            WHOLE: st.integers(-5, 50) | st.integers(),
            Scalar.TRUTH: st.booleans(),
            Scalar.BLOB: st.sampled_from(["YQ==", "a", ""]),
        }[shape]
    return st.one_of(right, right, right, right, ANYTHING)


@pytest.fixture(scope="module")
def hostile(sqs: Any) -> None:
    sqs.create_queue(QueueName="hostile")


@FEW
@given(st.sampled_from(QUICK), st.data())
@pytest.mark.usefixtures("hostile")
def test_any_document_is_answered(gateway: Server, operation: str, data: st.DataObject) -> None:
    values = data.draw(nearly(OPERATIONS[operation].takes))
    if isinstance(values, dict):
        values.pop("WaitTimeSeconds", None)

    told = ask_json(gateway, operation, values)

    assert told.status == 200 or 400 <= told.status < 500, told


@FEW
@given(st.binary(max_size=200), st.sampled_from(QUICK))
def test_any_bytes_are_answered(gateway: Server, body: bytes, operation: str) -> None:
    told = ask_json(gateway, operation, body)
    assert 200 <= told.status < 500

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    told = send(gateway, "POST", "/", headers, b"Action=" + operation.encode() + b"&" + body)
    assert 200 <= told.status < 500


LIST = b"POST / HTTP/1.1\r\nHost: mq\r\nX-Amz-Target: AmazonSQS.ListQueues\r\n"


@pytest.mark.parametrize(
    "garbage",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + bytes(60),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"COFFEE / HTTP/1.1\r\nHost: mq\r\n\r\n",
        b"POST / HTTP/1.1\r\n\r\n",
        b"GET /?Action=" + b"q" * 20_000 + b" HTTP/1.1\r\nHost: mq\r\n\r\n",
        LIST + b"X: a\0b\r\n\r\n",
        LIST + b"Content-Length: two\r\n\r\n{}",
        LIST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        LIST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ],
    ids=lambda garbage: repr(garbage[-40:]),
)
def test_what_is_not_http_is_answered_and_ends_its_connection_alone(
    gateway: Server, garbage: bytes
) -> None:
    """The answer is that of `mq`: without a request there is no protocol of SQS to answer in."""
    good = LIST + b"Content-Length: 2\r\n\r\n{}"
    with closing(Wire(gateway.port)) as wire, closing(Wire(gateway.port)) as other:
        wire.send(good)
        assert wire.answer().status == 200
        wire.send(garbage)

        answer = wire.answer()
        assert (answer.status, answer.json()["type"]) == (400, "urn:mq:problem:bad-http")
        assert wire.is_closed()
        other.send(good)
        assert other.answer().status == 200


COMPARED = [
    "ChangeMessageVisibility", "CreateQueue", "ReceiveMessage", "SendMessage", "SendMessageBatch",
    "SetQueueAttributes", "TagQueue",
]  # fmt: skip
NAMES = st.lists(
    st.sampled_from(
        ["Action", "QueueUrl", "Attribute", "1", "2", "Name", "Value", "MessageAttribute", "",
         "SendMessageBatchRequestEntry", "Id", "MessageBody", "StringValue", "DataType", "0", "-1",
         "99999999999", "AttributeName", "Tag", "Key", "VisibilityTimeout", "\u0661"]
    ),
    min_size=1, max_size=10,
).map(".".join)  # fmt: skip


@FEW
@given(st.dictionaries(NAMES, st.text(max_size=8), max_size=6), st.sampled_from(QUICK))
@pytest.mark.usefixtures("hostile")
def test_any_form_is_answered(gateway: Server, fields: dict[str, str], operation: str) -> None:
    body = urlencode({"QueueUrl": "/0/hostile", **fields, "Action": operation}).encode("utf-8")
    headers = {"Content-Type": "application/x-www-form-urlencoded"}

    assert 200 <= send(gateway, "POST", "/", headers, body).status < 500


@FEW
@given(st.sampled_from(COMPARED), st.data())
@pytest.mark.usefixtures("hostile")
def test_both_protocols_say_the_same(gateway: Server, operation: str, data: st.DataObject) -> None:
    values = data.draw(exactly(OPERATIONS[operation].takes))
    values.pop("WaitTimeSeconds", None)

    by_json, by_query = ask_both(gateway, operation, values)

    assert by_json.status == by_query.status, (by_json, by_query, flatten(operation, values))
    assert by_json.code == by_query.code
    if operation == "SendMessage" and by_json.status == 200:
        assert by_json.json()["MD5OfMessageBody"] == text_in(by_query, "MD5OfMessageBody")


def exactly(shape: Shape) -> st.SearchStrategy[Any]:
    """Values that both protocols can say: no empty list or map where one may be missing."""
    if isinstance(shape, Structure):
        required = {name: exactly(shape.members[name]) for name in shape.required}
        others = {
            name: exactly(each) for name, each in shape.members.items() if name not in required
        }
        return st.fixed_dictionaries(required, optional=others)
    if isinstance(shape, ListOf):
        return st.lists(exactly(shape.item), min_size=1, max_size=3)
    if isinstance(shape, MapOf):
        return st.dictionaries(TEXTS, exactly(shape.value), min_size=1, max_size=2)
    return {
        TEXT: TEXTS
        | st.sampled_from(["http://localhost/0/hostile", "String", "DelaySeconds", "5"]),
        WHOLE: st.integers(-5, 1000),
        Scalar.TRUTH: st.booleans(),
        Scalar.BLOB: st.sampled_from(["YQ==", "AAEC"]),
    }[shape]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


def test_a_url_names_what_the_client_called_the_gateway(gateway: Server) -> None:
    values = json.dumps({"QueueName": "named"}).encode()
    target = {"X-Amz-Target": "AmazonSQS.CreateQueue"}

    told = send(gateway, "POST", "/", {**target, "Host": "localhost:1234"}, values)

    assert told.json()["QueueUrl"] == "http://localhost:1234/000000000000/named"


def test_a_client_that_waits_to_send_is_told_to_go_on(gateway: Server, sqs: Any) -> None:
    body = json.dumps({"QueueUrl": make_url(sqs), "MessageBody": "a"}).encode()
    wire = Wire(gateway.port)
    wire.send(
        b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.SendMessage\r\n"
        b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
    )

    assert wire.answer().status == 100
    wire.send(body)
    assert wire.answer().status == 200
    wire.close()


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT"])
def test_an_answer_to_a_client_that_waits_with_its_body_is_the_last(
    gateway: Server, method: str
) -> None:
    with closing(Wire(gateway.port)) as wire:
        answer = wire.request(method, "/", expect="100-continue", content_length=str(1 << 30))

    assert answer.headers["connection"] == "close"


def test_receives_with_large_bodies_hold_nobody_up(gateway: Server, sqs: Any) -> None:
    """Few requests with large bodies are answered at once. These would wait with their bodies."""
    values = {"QueueUrl": make_url(sqs), "WaitTimeSeconds": "20"}
    form = {**values, "Timestamp": " " * MIB}
    told = [
        ask_json(gateway, "ReceiveMessage", json.dumps(values).encode() + b" " * MIB),
        ask_query(gateway, "ReceiveMessage", form),
    ]

    assert [(each.status, each.code) for each in told] == [(413, "RequestEntityTooLarge")] * 2


@pytest.mark.parametrize("kind", ["standard", "fifo"])
def test_clients_that_read_slowly_hold_a_bounded_memory(
    start_gateway: Callable[..., Server], kind: str
) -> None:
    """Those of a FIFO queue ask again for what they were answered, until they are told to wait."""
    server = start_gateway()
    sqs = client_of(server)
    is_fifo = kind == "fifo"
    url = make_url(sqs, **{"FifoQueue": "true"} if is_fifo else {})
    for at in range(10):
        lane = {"MessageGroupId": "a", "MessageDeduplicationId": str(at)} if is_fifo else {}
        sqs.send_message(QueueUrl=url, MessageBody="a" * MIB, **lane)
    values = {"QueueUrl": url, "MaxNumberOfMessages": 10}
    values |= {"ReceiveRequestAttemptId": "a"} if is_fifo else {"VisibilityTimeout": 0}
    target = {"x_amz_target": "AmazonSQS.ReceiveMessage"}
    asked = request_bytes("POST", "/", json.dumps(values).encode(), **target)

    with ExitStack() as exits:
        for _ in range(SLOW_READERS):
            wire = exits.enter_context(closing(Wire(server.port)))
            wire.send(asked)
            status = wire.socket.recv(20).split()[1]
            assert status == b"200" or (is_fifo and status == b"503")

        assert resident_bytes(server) < MAX_ANSWERS_BYTES + SLACK


def test_many_clients_share_the_work(gateway: Server, sqs: Any) -> None:
    """Each message is received once, and each is deleted."""
    url = make_url(sqs)
    found: list[str] = []

    def send_some(first: int) -> None:
        own = client_of(gateway)
        for at in range(first, first + 25):
            own.send_message(QueueUrl=url, MessageBody=str(at))

    def receive_some() -> None:
        own = client_of(gateway)
        while messages := own.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=2
        ).get("Messages"):
            found.extend(each["Body"] for each in messages)
            entries = [
                {"Id": str(at), "ReceiptHandle": each["ReceiptHandle"]}
                for at, each in enumerate(messages)
            ]
            own.delete_message_batch(QueueUrl=url, Entries=entries)

    threads = [threading.Thread(target=send_some, args=[first]) for first in (0, 25, 50, 75)]
    threads += [threading.Thread(target=receive_some) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(found, key=int) == [str(at) for at in range(100)]
    told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (
        told["ApproximateNumberOfMessages"] == told["ApproximateNumberOfMessagesNotVisible"] == "0"
    )
