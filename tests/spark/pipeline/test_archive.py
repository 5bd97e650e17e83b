"""What an archive tells of its query."""

from __future__ import annotations

from pyspark_mq.pipeline.archive import BatchCounter


def batch(number: int, rows: int, offset: object) -> dict[str, object]:
    return {"batchId": number, "numInputRows": rows, "sources": [{"latestOffset": offset}]}


def test_each_batch_is_counted_once_with_the_lag_of_the_last() -> None:
    counter = BatchCounter()
    first, second = batch(0, 5, '{"seq": 1, "waiting": 7}'), batch(1, 3, {"seq": 2, "waiting": 4})

    counter.count([first])
    assert (counter.messages, counter.waiting) == (5, 7)
    counter.count([first, second])
    counter.count([first, second])

    assert (counter.messages, counter.waiting) == (8, 4)


def test_a_batch_that_was_reported_before_it_had_messages_is_counted() -> None:
    counter = BatchCounter()
    idle = [batch(1, 0, {"seq": 0, "waiting": 0}), batch(1, 0, {"seq": 0, "waiting": 2})]

    counter.count(idle)
    assert (counter.messages, counter.waiting) == (0, 2)
    counter.count([*idle, batch(1, 5, {"seq": 1, "waiting": 3})])
    counter.count([*idle, batch(1, 5, {"seq": 1, "waiting": 3}), batch(2, 0, None)])

    assert (counter.messages, counter.waiting) == (5, None)


def test_a_lag_that_is_not_told_is_not_known() -> None:
    counter = BatchCounter()

    counter.count([batch(0, 5, None)])

    assert (counter.messages, counter.waiting) == (5, None)


def test_before_the_first_batch_the_lag_is_what_was_counted() -> None:
    counter = BatchCounter(12)

    counter.count([])

    assert (counter.messages, counter.waiting) == (0, 12)
