"""Attributes of messages: their MD5, their size, and their characters."""

from __future__ import annotations

from typing import Any

import pytest

from mq_sqs.faults import SQSError
from mq_sqs.messages.message_attributes import (
    check_name,
    check_number,
    check_text,
    choice_of,
    md5_of,
    size_of,
)

CITY: dict[str, Any] = {"DataType": "String", "StringValue": "Any City"}
GREETING: dict[str, Any] = {"DataType": "Binary", "BinaryValue": b"Hello, World!"}
POPULATION: dict[str, Any] = {"DataType": "Number", "StringValue": "1250800"}


@pytest.mark.parametrize(
    ("attributes", "digest"),
    [
        # Published in the tests of moto, of Spring Cloud AWS, and of SDKs.
        ({"SOME_Valid.attribute-Name": ("Number", "1493147359900")},
         "36655e7e9d7c0e8479fa3f3f42247ae7"),
        ({"timestamp": ("Number.java.lang.Long", "1493147359900")},
         "2e2e4876d8e0bd6b8c2c8f556831c349"),
        ({"SellerName": ("String", "Example Store")}, "cd28f3b68aeee4b2eac9c66f2f694b58"),
        ({"ordinal": ("Number", "1"), "category": ("String", "test")},
         "d21ae90c49061e927f57df5f5d72be1f"),
        ({"id": ("String", "2018fc74-4f77-1a5a-1be0-c2d037d5052b"),
          "contentType": ("String", "application/json"),
          "timestamp": ("Number.java.lang.Long", "1602845432024")},
         "b12289320bb6e494b18b645ef562b4a9"),
    ],
)  # fmt: skip
def test_the_md5_is_the_published_one(attributes: dict[str, tuple[str, str]], digest: str) -> None:
    typed = {
        name: {"DataType": kind, "StringValue": value} for name, (kind, value) in attributes.items()
    }

    assert md5_of(typed) == digest


def test_the_md5_does_not_depend_on_the_order() -> None:
    attributes = {"b": CITY, "a": GREETING, "C": POPULATION}

    assert md5_of(attributes) == md5_of(dict(reversed(attributes.items())))


def test_name_type_and_value_count_into_the_size() -> None:
    assert size_of({"City": CITY, "Gruß": GREETING}) == (4 + 6 + 8) + (5 + 6 + 13)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (["All"], {"a.b", "a.c", "d"}),
        ([".*"], {"a.b", "a.c", "d"}),
        (["*"], {"a.b", "a.c", "d"}),
        (["a.*"], {"a.b", "a.c"}),
        (["d", "e"], {"d"}),
        ([], set()),
    ],
)
def test_a_receiver_gets_what_it_asks_for(asked: list[str], found: set[str]) -> None:
    assert choice_of(asked).of({"a.b": CITY, "a.c": CITY, "d": CITY}).keys() == found


@pytest.mark.parametrize("text", ["", "\t\n\r ~", "\ud7ff\ue000\ufffd", "\U00010000\U0010ffff"])
def test_every_character_of_xml_is_taken(text: str) -> None:
    check_text(text.encode(), "it")


@pytest.mark.parametrize("text", ["a\0", "\x0b", "\x1f", "\ufffe", "\uffff"])
def test_any_other_character_is_refused_by_name(text: str) -> None:
    with pytest.raises(SQSError, match=f"U\\+{ord(text[-1]):04X}"):
        check_text(text.encode(), "it")


@pytest.mark.parametrize("name", ["a", "a.b-c_1", "größe", "ключ", "名前", "\u0661", "x" * 256])
def test_a_name_has_letters_and_digits_of_any_script(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "name", ["", "a b", ".a", "a.", "a..b", "AWS.a", "amazon.b", "x" * 257, "a\n", "a:b", "☃"]
)
def test_any_other_name_is_refused(name: str) -> None:
    with pytest.raises(SQSError, match="its name has letters"):
        check_name(name)


@pytest.mark.parametrize(
    "text",
    ["0", "-1.5", "+.5", "1.", "1e5", "1E-10", "9" * 38, "1" + "0" * 80, "0.0" + "9" * 38, "1e126",
     "1e-128", "0e999", "0" * 1_000_000 + "1"],
    ids=lambda text: text[:10],
)  # fmt: skip
def test_a_number_that_sqs_can_keep_is_taken(text: str) -> None:
    check_number("n", text)


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "-", ".", "1e", "0x1", "1_0", "NaN", "Infinity", "\u0661", "9" * 39, "1e127",
     "1e-129", "1e1000", "9" * 1_000_000 + "x", "9." + "9" * 1_000_000 + "x"],
    ids=lambda text: text[:10],
)  # fmt: skip
def test_any_other_number_is_refused_however_long_it_is(text: str) -> None:
    """Looking at the long ones from each of their digits would take hours."""
    with pytest.raises(SQSError, match="38 digits"):
        check_number("n", text)
