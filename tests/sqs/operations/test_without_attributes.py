"""On a file system without extended attributes, what the gateway cannot do there is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from mq.errors import PropertiesUnsupported
from mq_sqs.calls import Operations
from mq_sqs.faults import UNSUPPORTED_OPERATION, SQSError
from mq_sqs.queues.addresses import Addressing
from tests.support.faults import PlainFiles
from tests.support.gateways import run
from tests.support.stores import store_on

POLICY = {
    "RedrivePolicy": '{"deadLetterTargetArn":"arn:aws:sqs:::orders","maxReceiveCount":3}',
}
FIFO = {"QueueName": "line.fifo", "Attributes": {"FifoQueue": "true"}}


async def test_no_queue_is_told_that_it_has_dead_letters(root: Path) -> None:
    async with store_on(root, PlainFiles()) as store:
        operations = Operations(store, Addressing(), 30.0)
        await run(operations, "CreateQueue", QueueName="jobs")

        for operation, name in (("CreateQueue", "QueueName"), ("SetQueueAttributes", "QueueUrl")):
            with pytest.raises(SQSError, match="no extended attributes") as refused:
                await run(operations, operation, **{name: "jobs"}, Attributes=POLICY)
            assert refused.value.fault is UNSUPPORTED_OPERATION
        await run(
            operations, "SetQueueAttributes", QueueUrl="jobs", Attributes={"RedrivePolicy": ""}
        )


async def test_no_message_loses_its_attributes_or_its_group(root: Path) -> None:
    kinds = {"kind": {"DataType": "String", "StringValue": "tea"}}
    async with store_on(root, PlainFiles()) as store:
        operations = Operations(store, Addressing(), 30.0)
        await run(operations, "CreateQueue", **FIFO)

        for values in (
            {"QueueUrl": "orders", "MessageAttributes": kinds},
            {"QueueUrl": "orders", "MessageGroupId": "a"},
            {"QueueUrl": "line.fifo", "MessageGroupId": "a", "MessageDeduplicationId": "1"},
        ):
            with pytest.raises(PropertiesUnsupported):
                await run(operations, "SendMessage", MessageBody="a", **values)
        await run(operations, "SendMessage", QueueUrl="orders", MessageBody="a")
