"""What a receive of one of several servers passed over is counted."""

from __future__ import annotations

from collections.abc import Sequence

from tests.hosts.load import passed_over
from tests.soak.good import published, received
from tests.soak.history import Event


def _history(order: Sequence[int]) -> list[Event]:
    """Five messages that all servers know of, and receives one after the other."""
    history = [published(number, number / 10) for number in range(5)]
    return history + [received(each, 10 + at, f"{each}") for at, each in enumerate(order)]


def test_receives_in_order_pass_over_none() -> None:
    assert passed_over(_history(range(5))) == 0


def test_the_receive_that_passed_over_the_most_counts() -> None:
    assert passed_over(_history([1, 4, 0, 2, 3])) == 3


def test_what_nobody_was_given_is_passed_over_too() -> None:
    assert passed_over(_history([0, 4])) == 3


def test_what_a_server_may_not_know_of_yet_is_not_passed_over() -> None:
    assert passed_over([published(0, 9.0), published(1, 9.5), received(1, 10.0, "a")]) == 0
