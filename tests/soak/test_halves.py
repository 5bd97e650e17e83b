"""Of a handover without an answer both halves were done, or neither."""

from __future__ import annotations

import pytest

from tests.soak.evidence import Evidence
from tests.soak.good import ORDERS, History, guarded, published, received
from tests.soak.halves import halves
from tests.soak.history import Event, Given, left_there


def handed_over(status: int | None) -> History:
    """Message 1 for message 2."""
    removal = guarded("handover", 1, 1.0, "a", status)
    publish = Event("publish", removal.asked, removal.ended, status, ORDERS)
    publish.given = [Given("id-2" if status == 201 else "", "t2")]
    return [published(1, 0.0), received(1, 0.5, "a"), publish, removal]


def found_of(status: int | None, *left: int) -> list[str]:
    there = left_there([Given(f"id-{number}", f"t{number}", "z") for number in left], ORDERS)
    return [message_id for message_id, _ in halves(Evidence([*handed_over(status), there]))]


@pytest.mark.parametrize("left", [1, 2])
def test_both_or_neither_may_have_been_done(left: int) -> None:
    assert found_of(None, left) == []


@pytest.mark.parametrize("left", [(), (1, 2)])
def test_one_of_them_is_half(left: tuple[int, ...]) -> None:
    assert found_of(None, *left) == ["id-1"]


def test_what_was_answered_is_for_other_verdicts() -> None:
    assert found_of(201) == []
