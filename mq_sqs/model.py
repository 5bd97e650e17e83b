"""What each operation takes and returns, as Amazon's service model (2012-11-05) says it.

A test compares these tables with the models of botocore, the one for JSON and the older one for the
query protocol. The names are Amazon's.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple


class Scalar(Enum):
    """A single value, by its name in the model."""

    TEXT = "string"
    WHOLE = "integer"
    TRUTH = "boolean"
    BLOB = "blob"


TEXT, WHOLE, TRUTH, BLOB = Scalar


class ListOf(NamedTuple):
    """Values in a list. In the query protocol they are flat: `NAME.1`, `NAME.2`."""

    item: Shape
    name: str


class MapOf(NamedTuple):
    """Values by name. In the query protocol they are flat: `NAME.1.KEY` and `NAME.1.Value`."""

    value: Shape
    name: str
    key: str = "Name"


class Structure(NamedTuple):
    """Members by name, of which some are required."""

    members: Mapping[str, Shape]
    required: frozenset[str] = frozenset()


Shape = Scalar | ListOf | MapOf | Structure


class OperationShapes(NamedTuple):
    """What an operation takes, and what it returns; None for nothing."""

    takes: Structure
    gives: Structure | None = None


def complete(shape: Structure, found: dict[str, Any]) -> str | None:
    """Add the required lists and maps that are missing: the query protocol cannot say that one is
    empty. Returns the name of another required member that is missing, or None."""
    for name in sorted(shape.required - found.keys()):
        below = shape.members[name]
        if not isinstance(below, ListOf | MapOf):
            return name
        found[name] = [] if isinstance(below, ListOf) else {}
    return None


def structure(required: str = "", /, **members: Shape) -> Structure:
    return Structure(members, frozenset(required.split()))


_VALUE = structure(
    "DataType",
    StringValue=TEXT,
    BinaryValue=BLOB,
    StringListValues=ListOf(TEXT, "StringListValue"),
    BinaryListValues=ListOf(BLOB, "BinaryListValue"),
    DataType=TEXT,
)
QUEUE_ATTRIBUTES = MapOf(TEXT, "Attribute")
MESSAGE_ATTRIBUTES = MapOf(_VALUE, "MessageAttribute")
SYSTEM_ATTRIBUTES = MapOf(_VALUE, "MessageSystemAttribute")
ATTRIBUTE_NAMES = ListOf(TEXT, "AttributeName")
TAGS = MapOf(TEXT, "Tag", "Key")
QUEUE_URLS = ListOf(TEXT, "QueueUrl")
FAILED = ListOf(
    structure("Id SenderFault Code", Id=TEXT, SenderFault=TRUTH, Code=TEXT, Message=TEXT),
    "BatchResultErrorEntry",
)


def _entry(required: str, /, **members: Shape) -> Structure:
    """Return the shape of a batch's entry."""
    return structure(f"Id {required}", Id=TEXT, **members)


def _batch(operation: str, entry: Structure, result: Structure) -> OperationShapes:
    return OperationShapes(
        structure(
            "QueueUrl Entries",
            QueueUrl=TEXT,
            Entries=ListOf(entry, f"{operation}RequestEntry"),
        ),
        structure(
            "Successful Failed",
            Successful=ListOf(result, f"{operation}ResultEntry"),
            Failed=FAILED,
        ),
    )


def _on_queue(required: str = "", /, **members: Shape) -> Structure:
    return structure(f"QueueUrl {required}", QueueUrl=TEXT, **members)


_TO_SEND: Mapping[str, Shape] = {
    "MessageBody": TEXT,
    "DelaySeconds": WHOLE,
    "MessageAttributes": MESSAGE_ATTRIBUTES,
    "MessageSystemAttributes": SYSTEM_ATTRIBUTES,
    "MessageDeduplicationId": TEXT,
    "MessageGroupId": TEXT,
}
_SENT: Mapping[str, Shape] = {
    "MessageId": TEXT,
    "MD5OfMessageBody": TEXT,
    "MD5OfMessageAttributes": TEXT,
    "MD5OfMessageSystemAttributes": TEXT,
    "SequenceNumber": TEXT,
}
_MESSAGE = structure(
    MessageId=TEXT,
    ReceiptHandle=TEXT,
    MD5OfBody=TEXT,
    Body=TEXT,
    Attributes=MapOf(TEXT, "Attribute"),
    MD5OfMessageAttributes=TEXT,
    MessageAttributes=MESSAGE_ATTRIBUTES,
)
_MOVE_TASK = structure(
    TaskHandle=TEXT,
    Status=TEXT,
    SourceArn=TEXT,
    DestinationArn=TEXT,
    MaxNumberOfMessagesPerSecond=WHOLE,
    ApproximateNumberOfMessagesMoved=WHOLE,
    ApproximateNumberOfMessagesToMove=WHOLE,
    FailureReason=TEXT,
    StartedTimestamp=WHOLE,
)

OPERATIONS: Mapping[str, OperationShapes] = {
    "AddPermission": OperationShapes(
        _on_queue(
            "Label AWSAccountIds Actions",
            Label=TEXT,
            AWSAccountIds=ListOf(TEXT, "AWSAccountId"),
            Actions=ListOf(TEXT, "ActionName"),
        )
    ),
    "CancelMessageMoveTask": OperationShapes(
        structure("TaskHandle", TaskHandle=TEXT),
        structure(ApproximateNumberOfMessagesMoved=WHOLE),
    ),
    "ChangeMessageVisibility": OperationShapes(
        _on_queue("ReceiptHandle VisibilityTimeout", ReceiptHandle=TEXT, VisibilityTimeout=WHOLE)
    ),
    "ChangeMessageVisibilityBatch": _batch(
        "ChangeMessageVisibilityBatch",
        _entry("ReceiptHandle", ReceiptHandle=TEXT, VisibilityTimeout=WHOLE),
        _entry(""),
    ),
    "CreateQueue": OperationShapes(
        structure("QueueName", QueueName=TEXT, Attributes=QUEUE_ATTRIBUTES, tags=TAGS),
        structure(QueueUrl=TEXT),
    ),
    "DeleteMessage": OperationShapes(_on_queue("ReceiptHandle", ReceiptHandle=TEXT)),
    "DeleteMessageBatch": _batch(
        "DeleteMessageBatch", _entry("ReceiptHandle", ReceiptHandle=TEXT), _entry("")
    ),
    "DeleteQueue": OperationShapes(_on_queue()),
    "GetQueueAttributes": OperationShapes(
        _on_queue(AttributeNames=ATTRIBUTE_NAMES), structure(Attributes=QUEUE_ATTRIBUTES)
    ),
    "GetQueueUrl": OperationShapes(
        structure("QueueName", QueueName=TEXT, QueueOwnerAWSAccountId=TEXT),
        structure(QueueUrl=TEXT),
    ),
    "ListDeadLetterSourceQueues": OperationShapes(
        _on_queue(NextToken=TEXT, MaxResults=WHOLE),
        structure("queueUrls", queueUrls=QUEUE_URLS, NextToken=TEXT),
    ),
    "ListMessageMoveTasks": OperationShapes(
        structure("SourceArn", SourceArn=TEXT, MaxResults=WHOLE),
        structure(Results=ListOf(_MOVE_TASK, "ListMessageMoveTasksResultEntry")),
    ),
    "ListQueueTags": OperationShapes(_on_queue(), structure(Tags=TAGS)),
    "ListQueues": OperationShapes(
        structure(QueueNamePrefix=TEXT, NextToken=TEXT, MaxResults=WHOLE),
        structure(QueueUrls=QUEUE_URLS, NextToken=TEXT),
    ),
    "PurgeQueue": OperationShapes(_on_queue()),
    "ReceiveMessage": OperationShapes(
        _on_queue(
            AttributeNames=ATTRIBUTE_NAMES,
            MessageSystemAttributeNames=ListOf(TEXT, "MessageSystemAttributeName"),
            MessageAttributeNames=ListOf(TEXT, "MessageAttributeName"),
            MaxNumberOfMessages=WHOLE,
            VisibilityTimeout=WHOLE,
            WaitTimeSeconds=WHOLE,
            ReceiveRequestAttemptId=TEXT,
        ),
        structure(Messages=ListOf(_MESSAGE, "Message")),
    ),
    "RemovePermission": OperationShapes(_on_queue("Label", Label=TEXT)),
    "SendMessage": OperationShapes(_on_queue("MessageBody", **_TO_SEND), structure(**_SENT)),
    "SendMessageBatch": _batch(
        "SendMessageBatch",
        _entry("MessageBody", **_TO_SEND),
        _entry("MessageId MD5OfMessageBody", **_SENT),
    ),
    "SetQueueAttributes": OperationShapes(_on_queue("Attributes", Attributes=QUEUE_ATTRIBUTES)),
    "StartMessageMoveTask": OperationShapes(
        structure(
            "SourceArn", SourceArn=TEXT, DestinationArn=TEXT, MaxNumberOfMessagesPerSecond=WHOLE
        ),
        structure(TaskHandle=TEXT),
    ),
    "TagQueue": OperationShapes(_on_queue("Tags", Tags=TAGS)),
    "UntagQueue": OperationShapes(_on_queue("TagKeys", TagKeys=ListOf(TEXT, "TagKey"))),
}
