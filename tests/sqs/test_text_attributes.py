"""Attributes that are plain texts: they come out as if they were read one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq_sqs.message_attributes import choice_of, md5_of
from mq_sqs.packing import pack_attributes, properties_in, trailer_of
from mq_sqs.properties import ATTRIBUTES, attributes_of
from mq_sqs.text_attributes import text_attributes_of

ALL = choice_of(["All"])

NAMES = st.text("ab.A_-1", min_size=1, max_size=5).filter(lambda name: "." not in name)
TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1)
VALUES = st.fixed_dictionaries(
    {"DataType": st.sampled_from(["String", "String.a-b", "Number"]), "StringValue": TEXT}
)
CHOICES = st.sampled_from([["All"], [".*"], ["a"], ["a.*", "b"], ["nope"], ["b.*", "a", "ab"]])


@given(
    st.dictionaries(NAMES, VALUES | st.just({"DataType": "Binary", "BinaryValue": b"\0"})), CHOICES
)
def test_what_was_sent_comes_out(attributes: dict[str, dict[str, Any]], asked: list[str]) -> None:
    """Those that cannot be read together are read one by one."""
    texts = {
        name: each if each["DataType"] != "Number" else each | {"StringValue": "7"}
        for name, each in list(attributes.items())[:10]
    }
    properties = properties_in(trailer_of(pack_attributes(texts).written, []))
    choice = choice_of(asked)

    found = text_attributes_of(properties, choice)

    chosen = choice.of(attributes_of(properties))
    if found is not None:
        assert dict(found) == chosen
        assert found.md5() == md5_of(chosen)
        assert found.to_json() == json.dumps(chosen)


@given(
    st.lists(
        st.sampled_from(["{", "}", '"', "a", "b", ":[", ",", "],", "]}", " ", "String", "\\", "ä",
                         '"a":["String","', '"]', '"b":["Number",1]'])
    ).map("".join)
)  # fmt: skip
def test_what_was_written_otherwise_never_says_something_else(text: str) -> None:
    found = text_attributes_of({ATTRIBUTES: text}, ALL)

    assert found is None or dict(found) == attributes_of({ATTRIBUTES: text})


@pytest.mark.parametrize(
    "text", ["", "{}", '{"a":["String","x"],"a":["String","y"]}', '{"a":["Binary","AA=="]}',
             '{"b":["String","x"],"a":["String","y"]}', '{"aws.a":["String","x"]}',
             '{"a":["String","\\u0041"]}', '{"a": ["String","x"]}', '{"a":["String","x"]',
             '{"a":["String","x"]}}', '{"a":["String","x"];"b":["String","x"]}'],
)  # fmt: skip
def test_others_are_read_one_by_one(text: str) -> None:
    assert text_attributes_of({ATTRIBUTES: text}, ALL) is None


def test_plain_texts_are_read_together() -> None:
    found = text_attributes_of({ATTRIBUTES: '{"a":["String","x"],"b":["Number","1"]}'}, ALL)

    assert found is not None
    assert found["b"] == {"DataType": "Number", "StringValue": "1"}
    assert (list(found), len(found)) == (["a", "b"], 2)
