"""Seconds as text: what is written is read again as the same number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq.times import seconds_in, seconds_text


@given(st.decimals(0, 10**6, places=9).map(float))
def test_seconds_that_are_written_are_read_again(seconds: float) -> None:
    assert seconds_in(seconds_text(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"), [(30.0, "30"), (0.0, "0"), (0.5, "0.5"), (1e-9, "0.000000001")]
)
def test_seconds_are_written_in_digits(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    "text",
    ["", "-1", "+1", "1e3", "nan", "inf", "1.", ".5", "1_0", "\u0661", " 1", "1\n", "0" * 13],
)
def test_all_but_digits_is_no_number_of_seconds(text: str) -> None:
    assert seconds_in(text) is None
