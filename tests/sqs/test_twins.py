"""The two protocols against each other: a queue that is used in JSON, and its twin in the query
protocol. Whatever is asked of both, every field of every answer and error is the same, but for ids,
handles and times."""

from __future__ import annotations

import json
import uuid
from typing import Any
from xml.etree import ElementTree

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.gateways import (
    NAMESPACE,
    UUID,
    Told,
    ask_json,
    ask_query,
    flatten,
    text_in,
)
from tests.support.processes import Server

Step = tuple[str, dict[str, Any]]
Drawn = dict[str, st.SearchStrategy[Any]]

LISTS = {
    "Message": "Messages",
    "BatchResultErrorEntry": "Failed",
    "SendMessageBatchResultEntry": "Successful",
    "DeleteMessageBatchResultEntry": "Successful",
    "ChangeMessageVisibilityBatchResultEntry": "Successful",
}
MAPS = {
    "Attribute": ("Attributes", "Name"),
    "MessageAttribute": ("MessageAttributes", "Name"),
    "Tag": ("Tags", "Key"),
}
URLS = {"ListQueues": "QueueUrls", "ListDeadLetterSourceQueues": "queueUrls"}
"""How XML writes what are lists and maps in JSON, by Amazon's model."""

SHOWN_BY_LENGTH = {
    "SentTimestamp", "ApproximateFirstReceiveTimestamp", "CreatedTimestamp",
    "LastModifiedTimestamp", "SequenceNumber",
}  # fmt: skip


def of_xml(element: ElementTree.Element, operation: str) -> Any:
    """The members of an element as JSON has them, numbers and booleans as text."""
    if not len(element):
        return element.text or ""
    found: dict[str, Any] = {}
    for each in element:
        name = each.tag.removeprefix(NAMESPACE)
        if name == "QueueUrl" and operation in URLS:
            found.setdefault(URLS[operation], []).append(of_xml(each, operation))
        elif name in LISTS and len(each):
            found.setdefault(LISTS[name], []).append(of_xml(each, operation))
        elif name in MAPS:
            member, key = MAPS[name]
            value = each.find(f"{NAMESPACE}Value")
            assert value is not None
            map_ = found.setdefault(member, {})
            named = each.findtext(f"{NAMESPACE}{key}") or ""
            assert named not in map_
            map_[named] = of_xml(value, operation)
        else:
            assert name not in found
            found[name] = of_xml(each, operation)
    return found


def as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_text(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_text(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


class Twin:
    """One of the two queues. `handles` are those of all receives, in their order; `ids` those of
    all messages."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.handles: list[str] = []
        self.ids: list[str] = []

    def ask(self, operation: str, values: dict[str, Any]) -> Told:
        raise NotImplementedError

    def result_of(self, operation: str, told: Told) -> Any:
        raise NotImplementedError

    def error_of(self, told: Told) -> tuple[str, str]:
        raise NotImplementedError

    def play(self, step: Step) -> Any:
        """All that the gateway says to a step, without what is this twin's alone."""
        operation, values = step
        named = "QueueName" if operation in ("CreateQueue", "GetQueueUrl") else "QueueUrl"
        told = self.ask(operation, {named: self.name, **self._with_handles(values)})
        assert UUID.fullmatch(told.headers["x-amzn-requestid"])
        if told.status != 200:
            code, whose = self.error_of(told)
            # Amazon's older protocol, and only it, ends this message with these words.
            message = told.message.replace(" for this wsdl version.", ".")
            return told.status, code, whose, message.replace(self.name, "TWIN")
        result = as_text(self.result_of(operation, told))
        for message in result.get("Messages", ()) if result else ():
            self.handles.append(message["ReceiptHandle"])
        return self._without_own(result, "")

    def _with_handles(self, value: Any) -> Any:
        """Put this twin's handles in the places of their numbers."""
        if isinstance(value, list):
            return [self._with_handles(each) for each in value]
        if not isinstance(value, dict):
            return value
        found = {name: self._with_handles(each) for name, each in value.items()}
        if isinstance(value.get("ReceiptHandle"), int):
            at = value["ReceiptHandle"]
            known = at < len(self.handles)
            found["ReceiptHandle"] = self.handles[at] if known else "nonsense"
        return found

    def _without_own(self, value: Any, member: str) -> Any:
        if isinstance(value, dict):
            return {name: self._without_own(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self._without_own(each, member) for each in value]
        if member in SHOWN_BY_LENGTH:
            assert value.isdigit()
            return len(value)
        if member == "MessageId" and value not in self.ids:
            self.ids.append(value)
        known = {"MessageId": self.ids, "ReceiptHandle": self.handles}.get(member)
        return value.replace(self.name, "TWIN") if known is None else known.index(value)


class JsonTwin(Twin):
    def ask(self, operation: str, values: dict[str, Any]) -> Told:
        return ask_json(self.server, operation, values)

    def result_of(self, operation: str, told: Told) -> Any:
        return told.json()

    def error_of(self, told: Told) -> tuple[str, str]:
        code, _, whose = told.headers["x-amzn-query-error"].partition(";")
        assert json.loads(told.body).keys() == {"__type", "message"}
        return code, whose


class QueryTwin(Twin):
    def ask(self, operation: str, values: dict[str, Any]) -> Told:
        return ask_query(self.server, operation, flatten(operation, values))

    def result_of(self, operation: str, told: Told) -> Any:
        document = ElementTree.fromstring(told.body)
        assert document.tag == f"{NAMESPACE}{operation}Response"
        result = document.find(f"{NAMESPACE}{operation}Result")
        left = [each.tag.removeprefix(NAMESPACE) for each in document if each is not result]
        assert left == ["ResponseMetadata"]
        return {} if result is None or not len(result) else of_xml(result, operation)

    def error_of(self, told: Told) -> tuple[str, str]:
        return told.code, text_in(told, "Type") or ""


# What is asked

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
BODIES = TEXTS | st.sampled_from(["a", "", "\r\n\t <&>\"'", "x" * 2000])
TYPES = st.sampled_from(["String", "Number", "Binary", "String.x", "Binary.png", "Text"])
VALUES = st.one_of(
    st.fixed_dictionaries({"DataType": TYPES, "StringValue": TEXTS | st.just("12.50")}),
    st.fixed_dictionaries({"DataType": TYPES, "BinaryValue": st.sampled_from(["AAEC", "YQ=="])}),
)
ATTRIBUTES = st.dictionaries(st.sampled_from(["a", "b.c", "aws.x", "N-1"]), VALUES, min_size=1)
TRACE = st.fixed_dictionaries(
    {"AWSTraceHeader": st.fixed_dictionaries(
        {"DataType": st.just("String"), "StringValue": TEXTS})}
)  # fmt: skip
MESSAGE: Drawn = {"MessageBody": BODIES}
MORE: Drawn = {
    "DelaySeconds": st.sampled_from([0, 900, 901, -1]),
    "MessageAttributes": ATTRIBUTES,
    "MessageSystemAttributes": TRACE,
    "MessageGroupId": st.sampled_from(["g", "h", "not one"]),
    "MessageDeduplicationId": st.sampled_from(["1", "2", "3", "4"]),
}
IDS = st.sampled_from(["a", "b", "c", "d", "?"])
HANDLES = st.integers(0, 12)
SECONDS = st.sampled_from([0, 600, 43_200, 43_201, -1])
QUEUE_ATTRIBUTES = st.dictionaries(
    st.sampled_from(
        ["VisibilityTimeout", "DelaySeconds", "MaximumMessageSize", "ContentBasedDeduplication",
         "DeduplicationScope", "RedrivePolicy", "Policy", "KmsMasterKeyId", "Other"]
    ),
    st.sampled_from(["", "30", "900", "1024", "true", "messageGroup", "{}", "x"]),
    min_size=1, max_size=2,
)  # fmt: skip
NAMES_ASKED = st.lists(
    st.sampled_from(["All", "VisibilityTimeout", "QueueArn", "SenderId", "SentTimestamp",
                     "ApproximateReceiveCount", "AWSTraceHeader", "MessageGroupId", "Other"]),
    min_size=1, max_size=3,
)  # fmt: skip


def asking(
    operation: str,
    required: Drawn | None = None,
    optional: Drawn | None = None,
) -> st.SearchStrategy[Step]:
    return st.tuples(
        st.just(operation), st.fixed_dictionaries(required or {}, optional=optional or {})
    )


def batch(
    operation: str,
    required: Drawn,
    optional: Drawn | None = None,
) -> st.SearchStrategy[Step]:
    entry = st.fixed_dictionaries({"Id": IDS, **required}, optional=optional or {})
    return asking(operation, {"Entries": st.lists(entry, min_size=1, max_size=4)})


SENDS = st.one_of(asking("SendMessage", MESSAGE, MORE), batch("SendMessageBatch", MESSAGE, MORE))
RECEIVES = asking(
    "ReceiveMessage", {"MaxNumberOfMessages": st.sampled_from([1, 2, 10, 11])},
    {"VisibilityTimeout": SECONDS, "AttributeNames": NAMES_ASKED,
     "MessageSystemAttributeNames": NAMES_ASKED,
     "MessageAttributeNames": st.sampled_from([["All"], ["a"], ["b.*", "N-1"]]),
     "ReceiveRequestAttemptId": st.sampled_from(["1", "2", "not one"])},
)  # fmt: skip
OTHERS = st.one_of(
    asking("DeleteMessage", {"ReceiptHandle": HANDLES}),
    batch("DeleteMessageBatch", {"ReceiptHandle": HANDLES}),
    asking("ChangeMessageVisibility", {"ReceiptHandle": HANDLES, "VisibilityTimeout": SECONDS}),
    batch("ChangeMessageVisibilityBatch",
          {"ReceiptHandle": HANDLES, "VisibilityTimeout": SECONDS}),
    asking("GetQueueAttributes", optional={"AttributeNames": NAMES_ASKED}),
    asking("SetQueueAttributes", {"Attributes": QUEUE_ATTRIBUTES}),
    asking("CreateQueue", optional={"Attributes": QUEUE_ATTRIBUTES}),
    asking("GetQueueUrl"),
    asking("TagQueue", {"Tags": st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=2)}),
    asking("UntagQueue", {"TagKeys": st.lists(TEXTS, min_size=1, max_size=2)}),
    asking("ListQueueTags"),
    asking("ListDeadLetterSourceQueues"),
    asking("PurgeQueue"),
    asking("AddPermission", {"Label": TEXTS, "AWSAccountIds": st.just(["1"]),
                             "Actions": st.just(["*"])}),
    asking("RemovePermission", {"Label": TEXTS}),
    asking("DeleteQueue"),
)  # fmt: skip
STEPS = st.lists(st.one_of(SENDS, SENDS, RECEIVES, OTHERS), min_size=3, max_size=12)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(["", ".fifo"]), STEPS)
def test_twins_are_told_the_same(gateway: Server, suffix: str, steps: list[Step]) -> None:
    name = uuid.uuid4().hex[:12]
    twins = [JsonTwin(gateway, f"j-{name}{suffix}"), QueryTwin(gateway, f"q-{name}{suffix}")]
    made: Step = ("CreateQueue", {"Attributes": {"FifoQueue": "true"}} if suffix else {})

    for step in [made, *steps, ("ReceiveMessage", {"MaxNumberOfMessages": 10,
                                                   "AttributeNames": ["All"],
                                                   "MessageAttributeNames": ["All"]})]:  # fmt: skip
        by_json, by_query = (each.play(step) for each in twins)
        assert by_json == by_query, step
    assert [len(each.handles) for each in twins] == [len(twins[0].handles)] * 2
