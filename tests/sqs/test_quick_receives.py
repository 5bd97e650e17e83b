"""ReceiveMessage without a task for each request, if a message is there: what clients see is the
same."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from mq.names import QueueName
from mq.web.standing_in_line import Wait
from mq_sqs.calls import Operations
from mq_sqs.faults import SQSError
from mq_sqs.operations.receiving import begin_receive
from mq_sqs.queues.addresses import Addressing
from tests.support.fifo import LINE, FifoLine, fifo_on
from tests.support.gateways import make_url
from tests.support.processes import Server, wait_until
from tests.support.raw_calls import CLOSE, ask, request_of
from tests.support.stores import ORDERS, publish, store_on
from tests.support.wire import Wire

RECEIVE = b"ReceiveMessage"
ATTRIBUTES = {"n": {"DataType": "Number", "StringValue": "1"},
              "b": {"DataType": "Binary.x", "BinaryValue": b"\0\1"}}  # fmt: skip


def make_fifo(sqs: Any) -> str:
    made = sqs.create_queue(QueueName=f"{uuid.uuid4()}.fifo", Attributes={"FifoQueue": "true"})
    return str(made["QueueUrl"])


def send(sqs: Any, url: str, body: str, **more: Any) -> None:
    if url.endswith(".fifo"):
        more |= {"MessageGroupId": body, "MessageDeduplicationId": body}
    sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=ATTRIBUTES, **more)


@pytest.mark.parametrize("make", [make_url, make_fifo], ids=["standard", "fifo"])
def test_both_ways_answer_alike(gateway: Server, sqs: Any, make: Any) -> None:
    url = make(sqs)
    for at in range(9):
        send(sqs, url, str(at))
    asked = {
        "QueueUrl": url, "MaxNumberOfMessages": 3, "WaitTimeSeconds": 1, "AttributeNames": ["All"],
        "MessageAttributeNames": ["All"],
    }  # fmt: skip
    told = [ask(gateway, RECEIVE, asked, *more) for more in ((), (CLOSE,), ())]

    bodies = [[each["Body"] for each in answer["Messages"]] for _, answer in told]
    assert bodies == [["0", "1", "2"], ["3", "4", "5"], ["6", "7", "8"]]
    shapes = [
        [(each.keys(), each["Attributes"].keys(), each["MessageAttributes"]) for each in messages]
        for messages in (answer["Messages"] for _, answer in told)
    ]
    assert shapes[0] == shapes[1] == shapes[2]
    for _, answer in told:
        for each in answer["Messages"]:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
    short = {"QueueUrl": url}
    assert [ask(gateway, RECEIVE, short, *more) for more in ((), (CLOSE,))] == [(200, {})] * 2


@pytest.mark.parametrize("make", [make_url, make_fifo], ids=["standard", "fifo"])
def test_one_who_finds_nothing_waits_for_what_comes(gateway: Server, sqs: Any, make: Any) -> None:
    url = make(sqs)
    send(sqs, url, "first")
    asked = {"QueueUrl": url, "WaitTimeSeconds": 20}
    assert len(ask(gateway, RECEIVE, asked)[1]["Messages"]) == 1
    sending = threading.Timer(0.3, lambda: send(sqs, url, "late"))
    sending.start()

    _, told = ask(gateway, RECEIVE, asked)

    sending.join()
    assert [each["Body"] for each in told["Messages"]] == ["late"]


@pytest.mark.parametrize("make", [make_url, make_fifo], ids=["standard", "fifo"])
@pytest.mark.parametrize("size", [60_000, 300_000], ids=["long together", "in files"])
def test_large_messages_are_received_once_and_whole(
    gateway: Server, sqs: Any, make: Any, size: int
) -> None:
    url = make(sqs)
    bodies = [str(at) + size * "x" for at in range(4)]
    for at, body in enumerate(bodies):
        more = {"MessageGroupId": "g", "MessageDeduplicationId": str(at)} if "fifo" in url else {}
        sqs.send_message(QueueUrl=url, MessageBody=body, **more)

    asked = {"QueueUrl": url, "MaxNumberOfMessages": 10, "AttributeNames": ["All"]}
    _, told = ask(gateway, RECEIVE, asked)

    assert [each["Body"] for each in told["Messages"]] == bodies
    counts = [each["Attributes"]["ApproximateReceiveCount"] for each in told["Messages"]]
    assert counts == ["1"] * 4
    assert ask(gateway, RECEIVE, asked) == (200, {})


@pytest.mark.parametrize("make", [make_url, make_fifo], ids=["standard", "fifo"])
def test_messages_for_a_client_that_has_left_come_back(
    gateway: Server, sqs: Any, make: Any
) -> None:
    url = make(sqs)
    for at in range(3):
        send(sqs, url, str(at))
    for _ in range(5):
        wire = Wire(gateway.port)
        wire.send(request_of({"QueueUrl": url, "MaxNumberOfMessages": 3}, operation=RECEIVE))
        wire.reset()

    seen = set[str]()

    def are_all_seen() -> bool:
        found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
        seen.update(each["Body"] for each in found.get("Messages", []))
        return len(seen) == 3

    wait_until(are_all_seen)


WRONG: list[dict[str, Any]] = [
    {"MaxNumberOfMessages": 0},
    {"MaxNumberOfMessages": 11},
    {"WaitTimeSeconds": 21},
    {"VisibilityTimeout": -1},
    {"AttributeNames": ["Colour"]},
    {"ReceiveRequestAttemptId": ""},
    {"QueueUrl": "nobodys"},
]


@pytest.mark.parametrize("values", WRONG, ids=json.dumps)
def test_what_is_wrong_is_said_alike(gateway: Server, sqs: Any, values: dict[str, Any]) -> None:
    url = make_url(sqs)
    send(sqs, url, "a")
    told = [ask(gateway, RECEIVE, {"QueueUrl": url, **values}, *more) for more in ((), (CLOSE,))]

    assert told[0] == told[1]
    assert told[0][0] == 400
    assert len(sqs.receive_message(QueueUrl=url)["Messages"]) == 1


# Which way it is


async def test_it_waits_in_line_unless_a_message_is_there_or_need_not_be(root: Path) -> None:
    async with store_on(root) as store:
        operations = Operations(store, Addressing(), 30.0)

        def begins(**values: Any) -> bool:
            begun = begin_receive(operations, ORDERS, {"QueueUrl": "", **values})
            return begun is not None and begun.waits is None

        def waits(**values: Any) -> bool:
            begun = begin_receive(operations, ORDERS, {"QueueUrl": "", **values})
            return begun is not None and begun.waits is not None

        assert not begins()  # The settings must be read first.
        await operations.settings_of(ORDERS)
        await store.describe_queue(ORDERS)
        assert begins(MaxNumberOfMessages=10)
        assert waits(WaitTimeSeconds=1)
        await publish(store, b"body")
        assert begins(WaitTimeSeconds=1)
        assert not waits(WaitTimeSeconds=1)
        assert not begins(VisibilityTimeout=0)
        assert not waits(VisibilityTimeout=0, WaitTimeSeconds=1)
        with pytest.raises(SQSError):
            begins(WaitTimeSeconds=21)
        assert begin_receive(operations, QueueName("missing"), {"QueueUrl": ""}) is None


async def test_those_that_may_wait_are_counted_until_they_are_answered(root: Path) -> None:
    async with store_on(root) as store:
        operations = Operations(store, Addressing(), 30.0)
        await operations.settings_of(ORDERS)
        await store.describe_queue(ORDERS)
        await publish(store, b"body")
        begun = begin_receive(operations, ORDERS, {"WaitTimeSeconds": 9})
        assert begun is not None
        ending = asyncio.create_task(begun.end())
        await asyncio.sleep(0)

        assert store.count_spare(ORDERS) == 0
        late = begin_receive(operations, ORDERS, {"WaitTimeSeconds": 9})
        assert late is not None
        assert late.waits is not None
        assert len((await ending)["Messages"]) == 1
        await publish(store, b"body")
        assert store.count_spare(ORDERS) == 1


async def test_in_a_fifo_queue_it_begins_if_a_group_has_a_message(root: Path) -> None:
    async with fifo_on(root) as line:
        await line.send_all(("1", "a"), ("2", "a"))
        operations = Operations(line.store, Addressing(), 30.0)
        operations.fifo = line.service
        await operations.settings_of(LINE)
        assert spare(line) == 1  # It counts the groups.
        waiting = {"WaitTimeSeconds": 9}
        assert waits_for(operations, waiting) is None
        attempt = {"ReceiveRequestAttemptId": "a"}
        assert begin_receive(operations, LINE, waiting | attempt) is None

        [received] = await line.receive()
        assert spare(line) == 0  # The group waits.
        assert waits_for(operations, waiting) is not None
        await line.remove(received)
        assert spare(line) == 1


def waits_for(operations: Operations, values: dict[str, Any]) -> Wait | None:
    begun = begin_receive(operations, LINE, values)
    assert begun is not None
    return begun.waits


def spare(line: FifoLine) -> int:
    return line.service.count_spare(LINE)
