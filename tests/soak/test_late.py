"""A message that returns too late is found, and none that others may have, or that is held up by
what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.soak.good import (
    LETTERS,
    ORDERS,
    History,
    good,
    guarded,
    judged,
    kinds,
    ns,
    published,
    received,
)
from tests.soak.history import Event, Given, left_there

WHOLE = [Given("id-1", "t1", "z")]


def late() -> History:
    """The lease is over at 3 s; an answer of 20 s lacks the message, and that of 25 s has it."""
    return [published(1, 0.0), received(1, 1.0, "a"), nothing(20.0), received(1, 25.0, "b")]


def nothing(at: float, status: int | None = 204, queue: str = ORDERS) -> Event:
    return Event("receive", ns(at), ns(at + 0.01), status, queue, 2.0)


def fault(begin: float, end: float) -> Event:
    return Event("fault", ns(begin), ns(end), queue="SIGSTOP mq-mover", seconds=2.0)


def clock(at: float, ahead: float) -> Event:
    return Event("clock", ns(at), ns(at + 0.01), seconds=ahead)


def test_a_message_whose_lease_is_over_is_late() -> None:
    assert kinds(late(), WHOLE) == {"late"}


def test_a_message_whose_delay_is_over_is_late() -> None:
    history = late()
    history[:2] = [published(1, 0.0, delay=3.0)]

    assert kinds(history, WHOLE) == {"late"}


def test_a_message_that_comes_only_at_the_end_is_late() -> None:
    history = [*late()[:2], left_there([], ORDERS, ns(20.0))]

    assert kinds(history, WHOLE) == {"late"}


def test_what_comes_in_its_place_shows_that_it_is_late_where_the_oldest_comes_first() -> None:
    history = [*late(), published(2, 2.0)]
    history[2] = received(2, 20.0, "c")
    left = [*WHOLE, Given("id-2", "t2", "z")]
    assert kinds(history, left) == {"late"}

    elsewhere = [replace(each, queue=LETTERS) for each in history]

    assert "late" not in kinds(elsewhere, left)


def test_nothing_is_said_of_queues_whose_messages_are_moved_or_purged() -> None:
    elsewhere = [replace(each, queue="drafts") for each in late()]

    assert "late" not in kinds(elsewhere, WHOLE)


EXCUSES: dict[str, Sequence[Event]] = {
    "it is renewed": [guarded("renew", 1, 2.0, "a", 200), guarded("renew", 1, 3.5, "a", 503)],
    "the mover was stopped": [fault(4.0, 9.0)],
    "two faults in turn": [fault(4.0, 4.1), fault(7.0, 7.1)],
    "another may have it": [nothing(10.0, None)],
    "another may have given it back": [replace(nothing(3.5), ended=ns(6.0))],
    "the clock was set back": [clock(2.0, -30.0), clock(22.0, 0.0)],
    "the clock was set back when it was due": [clock(4.0, -10.0)],
}


@pytest.mark.parametrize("why", EXCUSES)
def test_a_message_is_not_late_if(why: str) -> None:
    assert "late" not in kinds([*late(), *EXCUSES[why]], WHOLE)


CHANGES: dict[str, Callable[[History], object]] = {
    "nobody asks": lambda history: history.pop(2),
    "it is not due for long": lambda history: history.__setitem__(2, nothing(17.0)),
    "who found nothing asked elsewhere": lambda history: history.__setitem__(
        2, nothing(20.0, queue="bulk")
    ),
    "who found nothing was refused": lambda history: history.__setitem__(2, nothing(20.0, 404)),
    "it came meanwhile": lambda history: history.__setitem__(
        2, replace(nothing(24.5), ended=ns(25.005))
    ),
}


@pytest.mark.parametrize("why", CHANGES)
def test_a_message_is_not_late_where(why: str) -> None:
    history = late()

    CHANGES[why](history)

    assert judged(history, WHOLE) == []


def test_a_mover_may_sleep_through_a_step_of_the_clock_that_ends_a_lease() -> None:
    history = [published(1, 0.0), received(1, 1.0, "a", seconds=1000), clock(4.0, 3600.0)]
    assert judged([*history, nothing(55.0), received(1, 60.0, "b")], WHOLE) == []

    history[1] = received(1, 1.0, "a", seconds=2.5)

    assert kinds([*history, nothing(55.0), received(1, 60.0, "b")], WHOLE) == {"late"}


def test_a_fault_counts_for_no_more_than_it_lasts() -> None:
    assert kinds([*late(), fault(2.0, 2.9), fault(30.0, 40.0), clock(0.1, 0.0)], WHOLE) == {"late"}


def test_what_does_not_hold_up_the_mover_is_no_excuse() -> None:
    stopped = replace(fault(4.0, 19.0), queue="SIGSTOP mq")

    assert kinds([*late(), stopped], WHOLE) == {"late"}


def test_two_faults_at_once_count_once() -> None:
    history = late()
    history[2:] = [nothing(30.0), received(1, 35.0, "b")]

    assert kinds([*history, fault(4.0, 9.0), fault(4.0, 9.0)], WHOLE) == {"late"}


def test_a_delay_counts_from_the_first_time_that_a_message_was_sent() -> None:
    history, left = good()
    [again] = [each for each in history if each.kind == "publish" and each.seconds]
    history.append(replace(again, status=None))
    again.asked = again.ended = ns(1.2)

    assert kinds(history, left) == set()
