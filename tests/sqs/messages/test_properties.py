"""Attributes of messages, read from properties of MQ."""

from __future__ import annotations

import pytest

from mq_sqs.messages.properties import ATTRIBUTES, SYSTEM, attributes_of, system_of


def test_a_message_without_attributes_has_none() -> None:
    assert attributes_of({"traceparent": "00-0af7"}) == {}
    assert system_of({"traceparent": "00-0af7"}) == {}


@pytest.mark.parametrize(
    "attribute",
    ['"a": ["String", "\\ud800"]', '"a": ["String", "\\u0001"]', '"a": ["String.\\ud800", "x"]',
     '"\\ud800": ["String", "x"]', '"\\ufffe": ["String", "x"]', '"a": ["String", "\ufffe"]'],
)  # fmt: skip
def test_an_attribute_that_sqs_cannot_express_is_left_out_alone(attribute: str) -> None:
    text = f'{{{attribute}, "b": ["String", "x"]}}'

    assert attributes_of({ATTRIBUTES: text}) == {"b": {"DataType": "String", "StringValue": "x"}}
    assert system_of({SYSTEM: text}) == {"b": "x"}


@pytest.mark.parametrize(
    "text", ["x", "[]", "1", '{"a": 1}', '{"a": []}', '{"a": [1, "b"]}', '{"a": ["Binary", "!"]}',
             '{"a": ["Binary", 1]}', "[" * 100_000],
)  # fmt: skip
def test_what_a_producer_over_http_wrote_otherwise_is_left_out(text: str) -> None:
    assert attributes_of({ATTRIBUTES: text}) == {}
    assert system_of({SYSTEM: text}) == {}
