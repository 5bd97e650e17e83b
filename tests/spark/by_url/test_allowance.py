"""How much a fetch may bring, whatever its threads ask for at the same time."""

from __future__ import annotations

from pyspark_mq.by_url.allowance import Allowance


def test_requests_that_are_under_way_count_as_if_they_brought_all() -> None:
    allowance = Allowance(1500, None)
    allowance.begin_queue(None)

    assert [allowance.take() for _ in range(3)] == [1000, 500, 0]


def test_what_a_request_did_not_bring_may_be_asked_for_again() -> None:
    allowance = Allowance(1500, None)
    allowance.begin_queue(None)
    first, second = allowance.take(), allowance.take()

    allowance.came(first, 900, 9000)
    allowance.came(second, 500, 5000)

    assert allowance.take() == 100


def test_a_queue_that_is_empty_brings_no_more_though_less_came_than_was_counted() -> None:
    allowance = Allowance(None, None)
    allowance.begin_queue(2500)
    allowance.came(allowance.take(), 1000, 1000)

    asked = allowance.take()
    assert asked == 1000
    allowance.came(asked, 0, 0)

    assert allowance.take() == 0
    assert allowance.end_queue() == 0


def test_the_next_queue_may_bring_what_the_one_before_did_not() -> None:
    allowance = Allowance(10, None)
    allowance.begin_queue(3)
    allowance.came(allowance.take(), 3, 3)
    assert allowance.take() == 0

    allowance.begin_queue(None)

    assert allowance.take() == 7


def test_the_request_that_reaches_the_bytes_is_the_last() -> None:
    allowance = Allowance(None, 100)
    allowance.begin_queue(None)
    allowance.came(allowance.take(), 1000, 99)
    assert allowance.take() == 1000

    allowance.came(1000, 1, 1)

    assert allowance.take() == 0
