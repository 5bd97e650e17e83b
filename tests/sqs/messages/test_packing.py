"""Attributes of messages as they come in: what is refused, and how the others are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq.errors import PropertiesTooLarge
from mq.properties import MAX_STORED_PROPERTIES_BYTES
from mq.spool.message.trailer import pack_trailer
from mq_sqs.faults import SQSError
from mq_sqs.messages.message_attributes import is_text, md5_of, size_of
from mq_sqs.messages.packing import (
    kept_texts,
    pack_attributes,
    pack_system_attributes,
    properties_in,
    trailer_of,
)
from mq_sqs.messages.properties import ATTRIBUTES, attributes_of, system_of

CITY: dict[str, Any] = {"DataType": "String", "StringValue": "Any City"}
GREETING: dict[str, Any] = {"DataType": "Binary", "BinaryValue": b"Hello, World!"}

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(is_text)
KINDS = st.sampled_from(["String", "String.ä", 'String.a"b\\c', "String.\x7f"])
VALUES = st.fixed_dictionaries({"DataType": KINDS, "StringValue": TEXT}) | st.fixed_dictionaries(
    {"DataType": st.just("Binary"), "BinaryValue": st.binary(min_size=1)}
)
NAMES = st.text("aA_-1", min_size=1, max_size=9)


@given(st.dictionaries(NAMES, VALUES, max_size=10), st.dictionaries(NAMES, TEXT, max_size=2))
def test_one_pass_finds_what_many_would(
    attributes: dict[str, dict[str, Any]], system: dict[str, str]
) -> None:
    """What is kept is a trailer like any other, and has what was sent."""
    packed = pack_attributes(attributes)
    trailer = trailer_of(packed.text, kept_texts(system))
    properties = json.loads(trailer or "{}")

    assert (attributes_of(properties), system_of(properties)) == (attributes, system)
    assert pack_trailer(properties) == trailer
    assert properties_in(trailer) == properties
    assert packed.size == size_of(attributes)
    assert packed.md5 == (md5_of(attributes) if attributes else "")


@pytest.mark.parametrize(
    "value", ["x", '"', "\\", '\\"', "\x7f", "\\u0041", "ä", "</script>", "%b"]
)
def test_a_text_cannot_leave_its_quotation_marks(value: str) -> None:
    attributes = {"a": {"DataType": "String", "StringValue": value}, "b": CITY}

    trailer = trailer_of(pack_attributes(attributes).text, kept_texts({"c": value}))

    properties = json.loads(trailer)
    assert (attributes_of(properties), system_of(properties)) == (attributes, {"c": value})
    assert trailer.isascii()
    assert trailer.count(b"\n") == 2


def test_the_order_in_which_they_are_sent_does_not_matter() -> None:
    attributes = {"b": CITY, "a": GREETING, "C": CITY}

    assert pack_attributes(attributes) == pack_attributes(dict(reversed(attributes.items())))


def test_a_message_without_attributes_has_no_trailer() -> None:
    assert trailer_of(pack_attributes({}).text, {}) == b""
    assert properties_in(b"") == {}


def test_no_more_is_kept_than_a_message_may_have() -> None:
    """The limit is for the property, not for the escapes in the trailer."""
    overhead = len(ATTRIBUTES) + len('{"a":["String",""]}')
    longest = "x" * (MAX_STORED_PROPERTIES_BYTES - overhead)
    quotes = '"' * (len(longest) // 2)

    for text in (longest, quotes):
        packed = pack_attributes({"a": {"DataType": "String", "StringValue": text}})
        assert len(trailer_of(packed.text, {})) > MAX_STORED_PROPERTIES_BYTES
    for text in (longest + "x", quotes + "xx"):
        packed = pack_attributes({"a": {"DataType": "String", "StringValue": text}})
        with pytest.raises(PropertiesTooLarge):
            trailer_of(packed.text, {})


PREFIXES = "supported type prefixes: Binary, Number, String."


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("", CITY, "its name"),
        (".a", CITY, "its name"),
        ("a.", CITY, "its name"),
        ("a..b", CITY, "its name"),
        ("a(b", CITY, "its name"),
        ("§", CITY, "its name"),
        ("a" * 257, CITY, "its name"),
        ("AWS.a", CITY, "its name"),
        ("amazon.a", CITY, "its name"),
        ("a", {"DataType": "Text", "StringValue": "x"}, PREFIXES),
        ("a", {"DataType": "String.", "StringValue": "x"}, PREFIXES),
        ("a", {"DataType": "String." + "x" * 250, "StringValue": "x"}, PREFIXES),
        ("a", {"DataType": "String"}, "give StringValue"),
        ("a", {"DataType": "String", "BinaryValue": b"x"}, "give StringValue"),
        ("a", {"DataType": "Binary", "StringValue": "x"}, "give BinaryValue"),
        ("a", {"DataType": "String", "StringValue": "x", "BinaryValue": b"x"}, "nothing else"),
        (
            "a",
            {"DataType": "String", "StringValue": ""},
            "must contain a non-empty value of type 'String'",
        ),
        ("a", {"DataType": "String", "StringValue": "\0"}, "U\\+0000"),
        ("a", {"DataType": "Number", "StringValue": "one"}, "a number"),
        ("a", {"DataType": "Number", "StringValue": "1" * 39}, "a number"),
        ("a", {"DataType": "Number", "StringValue": "1e"}, "a number"),
        ("a", {**CITY, "StringListValues": ["x"]}, "not supported"),
    ],
)
def test_what_sqs_does_not_take_is_refused(name: str, value: dict[str, Any], why: str) -> None:
    with pytest.raises(SQSError, match=why):
        pack_attributes({name: value})


def test_a_name_may_have_letters_of_any_script() -> None:
    """Amazon takes more than its documents say."""
    packed = pack_attributes({"attr.1\u00f8\u00df\u00e4": CITY})

    assert packed.size == len("attr.1") + 2 * 3 + len("String") + len(CITY["StringValue"])
    properties = properties_in(trailer_of(packed.text, {}))
    assert attributes_of(properties) == {"attr.1\u00f8\u00df\u00e4": CITY}


def test_a_character_that_sqs_does_not_take_is_a_wrong_parameter() -> None:
    with pytest.raises(SQSError, match="U\\+0008") as refused:
        pack_attributes({"a": {"DataType": "String", "StringValue": "\b"}})

    assert refused.value.fault.code == "InvalidParameterValue"


def test_lists_that_are_empty_say_nothing() -> None:
    lists: dict[str, Any] = {"StringListValues": [], "BinaryListValues": []}
    attributes = {"a": CITY, "b": GREETING, "c": CITY}

    with_lists = {name: {**value, **lists} for name, value in attributes.items()}

    assert pack_attributes(with_lists) == pack_attributes(attributes)


@pytest.mark.parametrize("text", ["0", "-1.5", "+1e10", ".5", "5.", "1" * 38, "0.000000001"])
def test_a_number_is_taken(text: str) -> None:
    pack_attributes({"n": {"DataType": "Number.int", "StringValue": text}})


def test_there_are_up_to_ten() -> None:
    pack_attributes({f"a{number}": CITY for number in range(10)})
    with pytest.raises(SQSError, match="exceeds"):
        pack_attributes({f"a{number}": CITY for number in range(11)})


def test_the_only_system_attribute_is_the_trace() -> None:
    pack_system_attributes({"AWSTraceHeader": CITY})
    with pytest.raises(SQSError, match="only system attribute"):
        pack_system_attributes({"Other": CITY})
    with pytest.raises(SQSError, match="String"):
        pack_system_attributes({"AWSTraceHeader": GREETING})
