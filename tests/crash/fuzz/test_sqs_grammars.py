"""Requests of SQS in both protocols: each is read as `tests/crash/fuzz/sqs_grammar.py` says, or
refused as SQS refuses it."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from mq_sqs.faults import SQSError
from mq_sqs.messages.packing import pack_attributes
from mq_sqs.model import OPERATIONS
from mq_sqs.operations.batches import check_entries
from mq_sqs.protocol import SqsRequest, Values
from mq_sqs.protocol.json import JsonDialect
from mq_sqs.protocol.query import QueryDialect
from mq_sqs.queues.addresses import queue_of_arn, queue_of_url, queue_to_make
from tests.crash.fuzz import sqs_grammar as right
from tests.crash.fuzz.drawing import ANY_TEXT, edited, nearly
from tests.crash.fuzz.grammar import is_queue
from tests.crash.fuzz.json_text import Drawn
from tests.crash.fuzz.judging import Grammar, is_taken, judge_examples, judge_for

_SHORT_EXAMPLES = 60
_LONG_SECONDS = 200
"""For all of them together."""

_BATCH = "DeleteMessageBatch"
_HEADERS = CIMultiDictProxy(CIMultiDict[str]())


def read_form(operation: str, fields: right.Fields) -> Values:
    body = urlencode(fields).encode()
    return QueryDialect().read(operation, SqsRequest("POST", "/", "", _HEADERS, body))


def read_json(operation: str, body: bytes) -> Values:
    return JsonDialect().read(operation, SqsRequest("POST", "/", "", _HEADERS, body))


def judge_form(fields: right.Fields) -> None:
    ids = right.entries_of_form(fields)

    assert is_taken(lambda: read_form(_BATCH, fields), SQSError) == (ids is not None)
    if ids is not None:
        assert [each["Id"] for each in read_form(_BATCH, fields)["Entries"]] == ids


def judge_json(body: bytes) -> None:
    ids = right.entries_of_json(body)

    assert is_taken(lambda: read_json(_BATCH, body), SQSError) == (ids is not None)
    if ids is not None:
        assert [each["Id"] for each in read_json(_BATCH, body)["Entries"]] == ids


def judge_ids(ids: list[str]) -> None:
    entries: list[Values] = [{"Id": each} for each in ids]

    assert is_taken(lambda: check_entries(entries, _BATCH), SQSError) == right.is_batch(ids)


def judge_whole(text: str) -> None:
    fields = [("QueueUrl", "orders"), ("MaxNumberOfMessages", text)]

    is_right = is_taken(lambda: read_form("ReceiveMessage", fields), SQSError)

    assert is_right == right.is_number_of_form(text)


def judge_address(text: str) -> None:
    assert is_taken(lambda: queue_to_make(text), SQSError) == right.is_name_to_make(text)
    try:
        assert is_queue(queue_of_url(f"http://127.0.0.1:9324/000000000000/{text}"))
    except SQSError:
        assert not is_queue(text)
    queue = queue_of_arn(f"arn:aws:sqs:eu-west-1:000000000000:{text}")
    assert queue == (text if is_queue(text) else None)


def judge_any_form(example: tuple[str, right.Fields]) -> None:
    """Any fields of any operation are read or refused."""
    operation, fields = example
    is_taken(lambda: read_form(operation, fields), SQSError)


def judge_any_json(example: tuple[str, bytes]) -> None:
    operation, body = example
    is_right = is_taken(lambda: read_json(operation, body), SQSError)
    assert right.is_json(body) or not is_right


def judge_attributes(attributes: dict[str, dict[str, Any]]) -> None:
    is_taken(lambda: pack_attributes(attributes), SQSError)


# What is drawn

_ENTRY_NAMES = edited(
    st.from_regex(
        r"DeleteMessageBatchRequestEntry\.([1-9]|10|999999999|0|01|²)\.(Id|ReceiptHandle)",
        fullmatch=True,
    )
)


@st.composite
def forms(draw: Drawn) -> right.Fields:
    """Whole entries, and a field or two of any kind."""
    numbers = draw(st.lists(st.sampled_from([1, 2, 3, 10, 999_999, 1_000_000, 999_999_999]),
                            max_size=3, unique=True))  # fmt: skip
    entry = "DeleteMessageBatchRequestEntry"
    fields = [
        (f"{entry}.{number}.{member}", draw(nearly("[a-z]{1,4}")))
        for number in numbers
        for member in ("Id", "ReceiptHandle")
    ]
    if draw(st.integers(0, 5)):
        fields.append(("QueueUrl", "http://127.0.0.1/0/orders"))
    if not draw(st.integers(0, 2)):
        fields.append((draw(_ENTRY_NAMES | nearly("QueueUrl|Action|Version|Id")), "x"))
    return draw(st.permutations(fields))


_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT | st.just("\udc00"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)
_ENTRIES = st.fixed_dictionaries(
    {"Id": st.just("a") | _VALUES, "ReceiptHandle": st.just("h")},
    optional={"VisibilityTimeout": _VALUES},
)
_DOCUMENTS = st.fixed_dictionaries(
    {"QueueUrl": st.just("orders") | _VALUES, "Entries": st.lists(_ENTRIES, max_size=3) | _VALUES},
    optional={"Entry": _VALUES},
)
_BODIES = st.one_of(
    _DOCUMENTS.map(json.dumps).map(str.encode),
    edited(_DOCUMENTS.map(json.dumps)).map(str.encode),
    _DOCUMENTS.map(json.dumps).map(lambda text: text.encode("utf-16")),
    st.binary(max_size=8),
    st.sampled_from([b"", b" \n", b"\v", b"[" * 100_000, b"\xef\xbb\xbf{}", b"9" * 5000]),
)
_OPERATIONS = st.sampled_from(sorted(OPERATIONS))
_MEMBERS = sorted({member for each in OPERATIONS.values() for member in each.takes.members})
_LISTS = ["Entry", "Attribute", "MessageAttribute", "AttributeName", "Tag", "TagKey",
          "SendMessageBatchRequestEntry", "MessageSystemAttribute"]  # fmt: skip
_PARTS = st.one_of(
    st.sampled_from([*_LISTS, *_MEMBERS, "Id", "Name", "Key", "Value", "StringValue", "DataType"]),
    st.sampled_from(["", "0", "1", "2", "01", "-1", "999999", "999999999", "9" * 50, "²", "1e3"]),
    ANY_TEXT,
)
_FIELDS = st.dictionaries(
    st.lists(_PARTS, min_size=1, max_size=12).map(".".join), ANY_TEXT, max_size=6
).map(lambda found: [("QueueUrl", "orders"), *found.items()])
_ATTRIBUTES = st.dictionaries(
    nearly("[A-Za-z0-9_.-]{1,9}", "AWS[.][a-z]"),
    st.fixed_dictionaries(
        {"DataType": nearly(r"(String|Number|Binary)(\.[a-z]{1,3})?")},
        optional={
            "StringValue": nearly(r"-?[0-9]{1,40}(\.[0-9]{0,3})?(e[0-9]{1,4})?", ".{0,3}"),
            "BinaryValue": st.binary(max_size=3),
        },
    ),
    max_size=11,
)

GRAMMARS = {
    "form": Grammar(forms(), judge_form),
    "json": Grammar(_BODIES, judge_json),
    "ids": Grammar(st.lists(nearly("[A-Za-z0-9_-]{1,80}") | st.just("a"), max_size=11), judge_ids),
    "whole": Grammar(nearly("[+-]?[0-9]{1,18}", "[0-9]{1,2}"), judge_whole),
    "address": Grammar(
        nearly("[A-Za-z0-9_-]{1,80}", r"[A-Za-z0-9_-]{1,75}\.fifo").filter(
            lambda text: not set(text) & set("/?%:")
        ),
        judge_address,
    ),
    "any form": Grammar(st.tuples(_OPERATIONS, _FIELDS), judge_any_form),
    "any json": Grammar(st.tuples(_OPERATIONS, _BODIES), judge_any_json),
    "attributes": Grammar(_ATTRIBUTES, judge_attributes),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_both_protocols_agree_with_their_grammar(name: str) -> None:
    judge_examples(GRAMMARS[name], _SHORT_EXAMPLES)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig", "latin-1"])
def test_json_is_utf_8(encoding: str) -> None:
    body = '{"QueueUrl": "ärger", "Entries": []}'.encode(encoding)

    judge_json(body)

    assert right.entries_of_json(body) is None


def test_a_name_of_the_query_protocol_in_json_is_passed_over() -> None:
    judge_json(
        b'{"Entries": [{"Id": "a", "ReceiptHandle": "h", ".VisibilityTimeout": null}], '
        b'"AttributeName.1": "All", "QueueUrl": "orders"}'
    )


@pytest.mark.crash_long
@pytest.mark.parametrize("name", GRAMMARS)
def test_both_protocols_agree_with_their_grammar_for_longer(name: str) -> None:
    judge_for(GRAMMARS[name], _LONG_SECONDS / len(GRAMMARS))
