"""What may be a property, and how much of it."""

from __future__ import annotations

import re
import tracemalloc

import pytest

from mq.config import MIB
from mq.errors import InvalidRequest, PropertiesTooLarge
from mq.properties import (
    MAX_PROPERTIES,
    MAX_PROPERTIES_BYTES,
    check_properties,
    is_property,
    require_http_size,
    size_of,
)

NAMES = [
    "traceparent",
    "tracestate",
    "baggage",
    "content-encoding",
    "content-language",
    "ce-type",
    "x-meta-a",
    "x-meta-!#$%&'*+-.^_`|~9z",
]
NO_NAMES = [
    "",
    "color",
    "content-type",
    "etag",
    "x-message-id",
    "ce-",
    "x-meta-",
    "x-meta-a b",
    "x-meta-a:b",
    "x-meta-a\n",
    "x-meta-caf\xe9",
    "x-meta-\u212a",  # a Kelvin sign, of which lower() makes a k
    "traceparent2",
]
NO_VALUES = [
    "\n",
    "a\r\nEtag: 1",
    "\0",
    "a\tb",
    "\x7f",
    " a",
    "a ",
    " ",
    "caf\xe9",
    "\u2615",
    "\ud800",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_counts_in_either_case_and_is_kept_in_lower_case(name: str) -> None:
    assert is_property(name)
    assert check_properties([(name.upper(), "1")]) == {name: "1"}


@pytest.mark.parametrize("name", NO_NAMES)
def test_another_name_is_refused_and_named(name: str) -> None:
    assert not is_property(name)
    with pytest.raises(InvalidRequest, match=re.escape(repr(name))):
        check_properties([("ce-id", "1"), (name, "1")])


def test_a_name_of_megabytes_is_not_kept() -> None:
    """A batch may have one, and 256 names were kept."""
    tracemalloc.start()
    try:
        for number in range(10):
            name = f"x-meta-{number}{'a' * MIB}"
            assert is_property(name)
            assert not is_property(f"{name} ")
        del name

        assert tracemalloc.get_traced_memory()[0] < MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", ["", "a", "a b", "!~", '"{\\'])
def test_a_value_of_printable_ascii_is_kept(value: str) -> None:
    assert check_properties([("ce-id", value)]) == {"ce-id": value}


@pytest.mark.parametrize("value", NO_VALUES)
def test_a_value_that_a_header_cannot_carry_is_refused_by_its_name(value: str) -> None:
    with pytest.raises(InvalidRequest, match="X-Meta-Shop"):
        check_properties([("ce-id", "1"), ("X-Meta-Shop", value)])


def test_one_name_twice_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'CE-id' is given twice"):
        check_properties([("ce-id", "1"), ("CE-id", "1")])


def test_http_takes_a_length_and_a_number_of_properties_and_no_more() -> None:
    longest = {"ce-id": "x" * (MAX_PROPERTIES_BYTES - len("ce-id"))}
    most = {f"ce-{number}": "" for number in range(MAX_PROPERTIES)}

    assert size_of(longest) == MAX_PROPERTIES_BYTES
    require_http_size(longest)
    require_http_size(most)

    with pytest.raises(PropertiesTooLarge, match=f"{MAX_PROPERTIES_BYTES + 1} bytes.* 8192"):
        require_http_size({"ce-id": longest["ce-id"] + "x"})
    with pytest.raises(PropertiesTooLarge, match="65 properties; 64"):
        require_http_size({**most, "ce-more": ""})
