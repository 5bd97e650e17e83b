"""Attributes of messages as properties of MQ."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq.properties import check_properties
from mq_sqs.message_attributes import is_text
from mq_sqs.properties import ATTRIBUTES, SYSTEM, from_properties, to_properties

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(is_text)
VALUES = st.fixed_dictionaries(
    {"DataType": st.just("String.ä"), "StringValue": TEXT}
) | st.fixed_dictionaries({"DataType": st.just("Binary"), "BinaryValue": st.binary(min_size=1)})
NAMES = st.text("aA_.-1", min_size=1, max_size=9)


@given(st.dictionaries(NAMES, VALUES, max_size=10), st.dictionaries(NAMES, TEXT, max_size=1))
def test_attributes_come_back_as_they_were(
    attributes: dict[str, dict[str, Any]], system: dict[str, str]
) -> None:
    typed = {name: {"DataType": "String", "StringValue": text} for name, text in system.items()}

    properties = to_properties(attributes, typed)

    assert check_properties(properties.items()) == properties
    assert from_properties(properties) == (attributes, system)


def test_a_message_without_attributes_has_no_properties() -> None:
    assert to_properties({}, {}) == {}
    assert from_properties({"traceparent": "00-0af7"}) == ({}, {})


@pytest.mark.parametrize(
    "text", ["x", "[]", "1", '{"a": 1}', '{"a": []}', '{"a": [1, "b"]}', '{"a": ["Binary", "!"]}',
             '{"a": ["Binary", 1]}', "[" * 100_000],
)  # fmt: skip
def test_what_a_producer_over_http_wrote_otherwise_is_left_out(text: str) -> None:
    assert from_properties({ATTRIBUTES: text, SYSTEM: text}) == ({}, {})
