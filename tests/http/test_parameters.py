"""Parameters of a query: what is accepted, and that a refusal names the parameter."""

from __future__ import annotations

import re

import pytest

from mq.errors import InvalidRequest
from mq.web.parameters import read_count, read_seconds

NO_NUMBERS = [
    "",
    " ",
    "-1",
    "+1",
    "nan",
    "inf",
    "1e3",
    "1e999",
    "0x1",
    "1,5",
    "1_0",
    "٣",
    "1.",
    ".5",
]


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0.0), ("20", 20.0), ("0.25", 0.25), ("60", 60)]
)
def test_seconds_are_digits_with_decimals(text: str, seconds: float) -> None:
    assert read_seconds({"wait": text}, "wait", most=60) == seconds


@pytest.mark.parametrize("text", [*NO_NUMBERS, "60.001", "9" * 400])
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(f"wait={text!r}")):
        read_seconds({"wait": text}, "wait", most=60)


def test_zero_seconds_can_be_refused() -> None:
    with pytest.raises(InvalidRequest, match="above 0"):
        read_seconds({"visibility": "0.000"}, "visibility", most=60, is_zero_allowed=False)


@pytest.mark.parametrize("text", [*NO_NUMBERS, "0", "1.0", "101", "9" * 400])
def test_a_count_is_a_whole_number_within_its_limit(text: str) -> None:
    assert read_count({"max": "100"}, "max", most=100) == 100

    with pytest.raises(InvalidRequest, match=re.escape(f"max={text!r}")):
        read_count({"max": text}, "max", most=100)


def test_a_parameter_that_is_not_given_is_none() -> None:
    assert read_seconds({}, "wait", most=60) is None
    assert read_count({}, "max", most=100) is None
