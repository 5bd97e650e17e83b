"""Rates from two looks at queues."""

from __future__ import annotations

from mq.ctl.screen.flow import FlowMeter
from mq.ctl.ways.access import Passed, QueueCounts
from mq.ctl.ways.answers import passed_in


def rates(meter: FlowMeter, now: float, ready: int, passed: Passed | None) -> tuple[object, object]:
    known = {} if passed is None else {"orders": passed}
    [flow] = meter.measure(now, [QueueCounts("orders", ready, 0, 0, None)], known)
    return flow.in_rate, flow.out_rate


def test_the_first_look_knows_no_rates() -> None:
    assert rates(FlowMeter(), 5.0, 7, Passed(100, 90)) == (None, None)


def test_counters_tell_what_came_and_went_between_two_looks() -> None:
    meter = FlowMeter()
    rates(meter, 0.0, 10, Passed(100, 90))

    assert rates(meter, 2.0, 30, Passed(160, 130)) == (30.0, 20.0)
    assert rates(meter, 4.0, 30, Passed(160, 130)) == (0.0, 0.0)


def test_counts_tell_what_the_counters_do_not_know() -> None:
    meter = FlowMeter()
    rates(meter, 0.0, 10, None)

    assert rates(meter, 1.0, 25, None) == (15.0, 0.0)
    assert rates(meter, 2.0, 5, None) == (0.0, 20.0)
    assert rates(meter, 3.0, 5, Passed(0, 40)) == (40.0, 40.0)


def test_a_server_that_starts_again_counts_from_the_beginning() -> None:
    meter = FlowMeter()
    rates(meter, 0.0, 10, Passed(100, 90))

    assert rates(meter, 1.0, 12, Passed(0, 0)) == (2.0, 0.0)


def test_dead_letters_are_those_of_the_queue_of_that_name() -> None:
    queues = [QueueCounts("orders", 1, 0, 0, 0.5), QueueCounts("orders.dead", 2, 3, 4, None)]

    flows = FlowMeter().measure(0.0, queues, {})

    assert [(flow.queue, flow.dead) for flow in flows] == [("orders", 9), ("orders.dead", 0)]


def test_the_counters_are_read_from_the_metrics() -> None:
    text = (
        "# HELP mq_queue_messages_published_total Messages.\n"
        'mq_queue_messages_published_total{queue="orders"} 12.0\n'
        'mq_queue_messages_removed_total{queue="orders"} 5.0\n'
        'mq_queue_messages_expired_total{queue="orders"} 1.0\n'
        'mq_queue_messages_received_total{queue="orders"} 9.0\n'
        'mq_queue_messages_dead_lettered_total{queue="a.b-c"} 2.0\n'
    )

    assert passed_in(text) == {"orders": Passed(12, 6), "a.b-c": Passed(0, 2)}
